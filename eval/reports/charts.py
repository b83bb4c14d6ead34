"""Data of a split's charts: curves and histograms, as plain numbers ready for JSON.

Curves come from the pooled counts of ``eval.metrics.score``. Failures and wrong states are counted from the outputs,
video by video, so that only one video's outputs are in memory at a time.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, get_args

import numpy as np

from engine.dialogue import STATES
from engine.records import FrameOutput
from eval.data.samples import Sample
from eval.metrics.counts import Values, ratio
from eval.metrics.decisions import DecisionCounts, reliability_bins
from eval.metrics.dialogue_state import reference_states
from eval.metrics.failures import FailureKind, JudgedVideo
from eval.metrics.score import VideoCounts

NUM_POINTS: Final = 101
"""Thresholds of a precision-recall curve: 0, 0.01, ... 1."""
_HEADS: Final = {"speak": "speaking", "update": "updating"}


class FailureCounter:
    """Running counts of failures and of right and wrong states over many videos."""

    def __init__(self) -> None:
        self._failures: Counter[FailureKind] = Counter()
        self._states: dict[int, Counter[str]] = {}

    def add(self, sample: Sample, outputs: Sequence[FrameOutput], judged: JudgedVideo) -> None:
        """Add a video: its failures, and per step the frames in which its state is right, ahead or behind."""
        self._failures.update(failure.kind for failure in judged.failures)
        ranks: dict[str, int] = {state: rank for rank, state in enumerate(STATES)}
        for wanted, output in zip(reference_states(sample), outputs, strict=False):
            for index, step in enumerate(sample.steps):
                ahead = ranks[output.dst_state[step.id]] - ranks[wanted[step.id]]
                relation = "right" if ahead == 0 else "ahead" if ahead > 0 else "behind"
                self._states.setdefault(index, Counter())[relation] += 1

    def failures(self) -> dict[str, int]:
        """Return the number of failures of each kind."""
        return {kind: self._failures[kind] for kind in get_args(FailureKind)}

    def states(self) -> list[dict[str, float]]:
        """Return per step of the task, in order, the shares of frames in which it is right, ahead and behind."""
        return [
            {name: ratio(counts[name], counts.total()) for name in ("right", "ahead", "behind")}
            for _, counts in sorted(self._states.items())
        ]


def build_chart_data(total: VideoCounts, failures: FailureCounter) -> dict[str, Any]:
    """Return the content of ``charts.json``.

    Args:
        total: The pooled counts.
        failures: Failures and states of the same videos.
    """
    heads = {head: getattr(total, name) for head, name in _HEADS.items()}
    return {
        "precision_recall": {head: precision_recall(counts) for head, counts in heads.items()},
        "reliability": {
            head: [
                {"mean_prob": tenth.mean_prob, "expected_share": tenth.expected_share, "num_frames": tenth.num_frames}
                for tenth in reliability_bins(counts)
                if tenth.num_frames
            ]
            for head, counts in heads.items()
        },
        "leads_s": {head: _histogram(counts.leads_s) for head, counts in heads.items()},
        "failures": failures.failures(),
        "states": failures.states(),
        "latency_ms": [
            {"share": level, "latency_ms": total.system.latencies_ms.quantile(level)}
            for level in np.linspace(0.01, 1, 100).round(2).tolist()
            if total.system.latencies_ms.total
        ],
    }


def precision_recall(counts: DecisionCounts) -> list[dict[str, float]]:
    """Return precision and recall over frames at each threshold, from the recorded probabilities.

    A frame is decided if its probability is greater than the threshold. Points without a decided frame are left out;
    the result is empty without an expected frame.
    """
    points = []
    for threshold in np.linspace(0, 1, NUM_POINTS).round(2).tolist():
        hits, alarms = _above(counts.expected_probs, threshold), _above(counts.other_probs, threshold)
        if hits + alarms and counts.expected_probs.total:
            points.append(
                {
                    "threshold": threshold,
                    "precision": hits / (hits + alarms),
                    "recall": hits / counts.expected_probs.total,
                }
            )
    return points


def _above(values: Values, threshold: float) -> float:
    return float(values.weights[np.searchsorted(values.numbers, threshold, side="right") :].sum())


def _histogram(values: Values) -> list[dict[str, float]]:
    """Count leads in seconds, rounded to the nearest half second."""
    halves: Counter[float] = Counter()
    for number, weight in zip(values.numbers.tolist(), values.weights.tolist(), strict=True):
        halves[round(2 * number) / 2] += weight
    return [{"lead_s": lead_s, "num_events": halves[lead_s]} for lead_s in sorted(halves)]

"""Data of a split's charts: curves and histograms, as plain numbers ready for JSON.

All of it comes from the analyses of the videos (``eval.metrics.score``), so the outputs are not read again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from eval.metrics.counts import Pool, Values, ratio
from eval.metrics.decisions import DecisionCounts, reliability_bins
from eval.metrics.dialogue_state import StepStates
from eval.metrics.failures import FAILURE_KINDS
from eval.metrics.score import VideoAnalysis, VideoCounts

NUM_POINTS: Final = 101
"""Thresholds of a precision-recall curve: 0, 0.01, ... 1."""
_HEADS: Final = {"speak": "speaking", "update": "updating"}


def build_chart_data(videos: Sequence[VideoAnalysis]) -> dict[str, Any]:
    """Return the content of ``charts.json``."""
    total = Pool([video.counts for video in videos], VideoCounts).total()
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
        "failures": dict(zip(FAILURE_KINDS, map(int, total.failures.by_kind), strict=True)),
        "states": _state_shares(videos),
        "latency_ms": [
            {"share": level, "latency_ms": total.system.latencies_ms.quantile(level)}
            for level in np.linspace(0.01, 1, 100).round(2).tolist()
            if total.system.latencies_ms.total
        ],
    }


def _state_shares(videos: Sequence[VideoAnalysis]) -> list[dict[str, float]]:
    """Return per step of the task, in order, the shares of frames in which it is right, ahead and behind."""
    by_step = zip_longest(*(video.steps for video in videos), fillvalue=StepStates())
    totals = [asdict(Pool(states, StepStates).total()) for states in by_step]
    return [{name: ratio(number, sum(total.values())) for name, number in total.items()} for total in totals]


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

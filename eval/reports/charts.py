"""Data of a split's charts: curves and histograms, as plain numbers ready for JSON.

All of it comes from the analyses of the videos (``eval.metrics.score``), so the outputs are not read again.
"""

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


def build_chart_data(videos: Sequence[VideoAnalysis]) -> dict[str, Any]:
    """Return the content of ``charts.json``."""
    total = Pool([video.counts for video in videos], VideoCounts).total()
    heads = {"speak": total.speaking, "update": total.updating}
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
    thresholds, num_expected = np.linspace(0, 1, NUM_POINTS).round(2), counts.expected_probs.total
    hits, alarms = counts.expected_probs.above(thresholds), counts.other_probs.above(thresholds)
    return [
        {"threshold": threshold, "precision": hit / (hit + alarm), "recall": hit / num_expected}
        for threshold, hit, alarm in np.stack((thresholds, hits, alarms), axis=1).tolist()
        if hit + alarm and num_expected
    ]


def _histogram(values: Values) -> list[dict[str, float]]:
    """Count leads in seconds, rounded to the nearest half second."""
    leads_s, places = np.unique(np.round(2 * values.numbers) / 2, return_inverse=True)
    numbers = np.bincount(places, values.weights, len(leads_s))
    return [{"lead_s": lead_s, "num_events": number} for lead_s, number in np.stack((leads_s, numbers), 1).tolist()]

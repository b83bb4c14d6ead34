"""Data of a split's charts: curves and histograms, as plain numbers ready for JSON.

All of it comes from the analyses of the videos (``eval.metrics.score``), so the outputs are not read again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.io.files import finish_files
from stepscope.engine.io.json_records import Count, Finite, FiniteOrNan, read_record
from stepscope.eval.metrics.counts import Pool, ratio
from stepscope.eval.metrics.decisions import DecisionCounts, is_probability, summarize_decisions, total_counts
from stepscope.eval.metrics.dialogue_state import StepStates
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.metrics.score import VideoAnalysis, VideoCounts
from stepscope.eval.metrics.values import Values

NUM_POINTS: Final = 101
"""Thresholds of a precision-recall curve: 0, 0.01, ... 1."""
MAX_ROC_POINTS: Final = 500


Head = Literal["speak", "update"]


class _CurvePoint(TypedDict):
    threshold: Finite
    precision: Finite
    recall: Finite


class _RocPoint(TypedDict):
    threshold: FiniteOrNan
    false_positive_rate: Finite
    recall: Finite


class _OperatingPoint(TypedDict):
    precision: FiniteOrNan
    recall: FiniteOrNan
    false_positive_rate: FiniteOrNan


class _ReliabilityBin(TypedDict):
    mean_prob: Finite
    expected_share: Finite
    num_frames: Finite


class _Lead(TypedDict):
    lead_s: Finite
    num_events: Finite


class _StateShares(TypedDict):
    right: FiniteOrNan
    ahead: FiniteOrNan
    behind: FiniteOrNan


class _Latency(TypedDict):
    share: Finite
    latency_ms: Finite


class _SignalCharts(BaseModel):
    title: str
    decides: Head
    threshold: FiniteOrNan
    precision_recall: list[_CurvePoint]
    roc: list[_RocPoint]
    operating_point: _OperatingPoint
    reliability: list[_ReliabilityBin]


class _Charts(BaseModel):
    precision_recall: dict[Head, list[_CurvePoint]]
    roc: dict[Head, list[_RocPoint]]
    operating_points: dict[Head, _OperatingPoint]
    reliability: dict[Head, list[_ReliabilityBin]]
    leads_s: dict[Head, list[_Lead]]
    failures: dict[str, Count]
    states: list[_StateShares]
    latency_ms: list[_Latency]
    signals: dict[str, _SignalCharts] = {}
    classes: list[dict[str, str | FiniteOrNan]] = []


def build_chart_data(videos: Sequence[VideoAnalysis]) -> dict[str, Any]:
    """Return the content of ``charts.json``."""
    total = Pool([video.counts for video in videos], VideoCounts).total()
    heads = {"speak": total.speaking, "update": total.updating}
    return {
        "precision_recall": {head: precision_recall(counts) for head, counts in heads.items()},
        "roc": {head: roc(counts) for head, counts in heads.items()},
        "operating_points": {head: _operating_point(counts) for head, counts in heads.items()},
        "reliability": {head: reliability(counts) for head, counts in heads.items()},
        "leads_s": {head: _histogram(counts.leads_s) for head, counts in heads.items()},
        "failures": dict(zip(FAILURE_KINDS, map(int, total.failures.by_kind), strict=True)),
        "states": _state_shares(videos),
        "latency_ms": [
            {"share": level, "latency_ms": total.system.latencies_ms.quantile(level)}
            for level in np.linspace(0.01, 1, 100).round(2).tolist()
            if total.system.latencies_ms.total
        ],
    }


def chart_signals(specs: Sequence[SignalSpec], videos: Sequence[VideoAnalysis]) -> dict[str, Any]:
    """Return the charts of the named signals that decide, at thresholds in their own units; empty without any.

    A rule that follows triggers, such as a running sum, has no curves, since its decision at a frame depends on the
    frames before. Only probabilities have a reliability.
    """
    found = {}
    for spec in specs:
        if spec.decides is None:
            continue
        counts = total_counts(spec.name, [video.signals for video in videos])
        has_curves = not spec.rule.follows_triggers
        found[spec.name] = {
            "title": spec.title,
            "decides": spec.decides,
            "threshold": math.nan if spec.threshold is None else spec.threshold,
            "precision_recall": _in_units(spec, precision_recall(counts)) if has_curves else [],
            "roc": _in_units(spec, roc(counts)) if has_curves else [],
            "operating_point": _operating_point(counts),
            "reliability": reliability(counts) if is_probability(spec) else [],
        }
    return {"signals": found} if found else {}


def _in_units(spec: SignalSpec, points: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the points of a curve with their thresholds in the units of the signal."""
    low, high = spec.rule.kind.range(spec.low, spec.high)
    return [{**point, "threshold": float(f"{low + (high - low) * point['threshold']:.12g}")} for point in points]


def _state_shares(videos: Sequence[VideoAnalysis]) -> list[dict[str, float]]:
    """Return per step of the task, in order, the shares of frames in which it is right, ahead and behind."""
    by_step = zip_longest(*(video.steps for video in videos), fillvalue=StepStates())
    totals = [asdict(Pool(states, StepStates).total()) for states in by_step]
    return [{name: ratio(number, sum(total.values())) for name, number in total.items()} for total in totals]


def precision_recall(counts: DecisionCounts) -> list[dict[str, float]]:
    """Return precision and recall over frames at each threshold, from the recorded probabilities.

    A frame is decided if its probability is known and greater than the threshold. Points without a decided frame are
    left out; the result is empty without an expected frame.
    """
    thresholds, num_expected = np.linspace(0, 1, NUM_POINTS).round(2), counts.num_expected
    hits, alarms = counts.expected_probs.above(thresholds), counts.other_probs.above(thresholds)
    return [
        {"threshold": threshold, "precision": hit / (hit + alarm), "recall": hit / num_expected}
        for threshold, hit, alarm in np.stack((thresholds, hits, alarms), axis=1).tolist()
        if hit + alarm and num_expected
    ]


def roc(counts: DecisionCounts) -> list[dict[str, float]]:
    """Return the ROC curve over frames, from no decided frame to all with a probability; empty without both classes.

    Points on a straight line between their neighbours are left out, so the area of the curve is ``auroc`` if all frames
    have a probability. A curve with more than ``MAX_ROC_POINTS`` corners is thinned. The last threshold is nan. A frame
    is decided above its threshold; ``roc_curve`` of scikit-learn decides it at the threshold too, so it has other ones.

    Expected 0.9 and 0.4 and the rest 0.6 and 0.2 give the points (0, 0), (0, 1/2), (1/2, 1/2), (1/2, 1), (1, 1).
    """
    expected, other = counts.expected_probs, counts.other_probs
    if not (expected.total and other.total):
        return []
    thresholds = np.unique(np.concatenate((expected.numbers, other.numbers)))[::-1]
    hits = np.append(expected.above(thresholds), expected.total)
    alarms = np.append(other.above(thresholds), other.total)
    turns = np.diff(alarms)[:-1] * np.diff(hits)[1:] != np.diff(alarms)[1:] * np.diff(hits)[:-1]
    corners = np.flatnonzero(np.concatenate(([True], turns, [True])))
    kept = corners[np.linspace(0, len(corners) - 1, min(len(corners), MAX_ROC_POINTS)).round().astype(int)]
    rates = alarms / (counts.num_frames - counts.num_expected), hits / counts.num_expected
    points = np.stack((np.append(thresholds, np.nan), *rates), axis=1)[kept]
    return [{"threshold": t, "false_positive_rate": alarm, "recall": hit} for t, alarm, hit in points.tolist()]


def _operating_point(counts: DecisionCounts) -> dict[str, float]:
    """Return the rates of the decisions of the run itself, over frames; nan if undefined."""
    scores = summarize_decisions(counts)
    return {
        "precision": scores["precision"],
        "recall": scores["recall"],
        "false_positive_rate": ratio(counts.num_false_alarms, counts.num_false_alarms + counts.num_rejections),
    }


def reliability(counts: DecisionCounts) -> list[dict[str, float]]:
    """Return mean probability and share of expected frames of each bin of probabilities that is not empty.

    The calibration error is the mean over frames of ``|mean_prob - expected_share|``.
    """
    return [
        {"mean_prob": prob_sum / number, "expected_share": expected / number, "num_frames": number}
        for number, prob_sum, expected in zip(counts.bin_frames, counts.bin_prob_sums, counts.bin_expected, strict=True)
        if number
    ]


def _histogram(values: Values) -> list[dict[str, float]]:
    """Count leads in seconds, rounded to the nearest half second."""
    leads_s, places = np.unique(np.round(2 * values.numbers) / 2, return_inverse=True)
    numbers = np.bincount(places, values.weights, len(leads_s))
    return [{"lead_s": lead_s, "num_events": number} for lead_s, number in np.stack((leads_s, numbers), 1).tolist()]


def read_charts(folder: Path) -> Mapping[str, Any]:
    """Read ``charts.json``. Raises ``FileNotFoundError`` without it, and ``ValueError`` with its name and the field."""
    finish_files(folder)
    return read_record(_Charts, folder / "charts.json").model_dump()

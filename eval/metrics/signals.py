"""Scores of the named signals that decide: each as a classifier of frames, and by the events at its own threshold.

A signal without a threshold is scored with the decisions of the run. Ranks and calibration are those of its values,
scaled from its range to [0, 1] and cut there; for a policy of falls or rises, of these; of a sum, those of the frames.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.decisions import DecisionCounts, count_role, summarize_decisions

ROLES: Final = {"speak": "assistant", "update": "update"}
PREFIXES: Final = {"speak": "speaking_", "update": "dst_update_"}
"""Prefix of the scores of a decision in ``metrics.toml``, which define those of a signal too."""


def count_signals(
    specs: Sequence[SignalSpec], sample: Sample, outputs: Sequence[FrameOutput]
) -> dict[str, DecisionCounts]:
    """Return the counts of each signal that decides, by name, for one video of ``T`` frames."""
    return {spec.name: _count_signal(spec, sample, outputs) for spec in specs if spec.decides is not None}


def _count_signal(spec: SignalSpec, sample: Sample, outputs: Sequence[FrameOutput]) -> DecisionCounts:
    assert spec.decides is not None
    values = np.array(spec.values([output.signals for output in outputs]), float)  # [T]
    if spec.threshold is not None:
        decided = spec.rule.find_triggers(values, spec.threshold, signal=spec.decides, fps=sample.fps).tolist()
    elif spec.decides == "speak":
        decided = [output.response is not None for output in outputs]
    else:
        decided = [bool(output.updates) for output in outputs]
    low, high = spec.rule.kind.range(spec.low, spec.high)
    probs = np.clip((spec.rule.levels(values, fps=sample.fps) - low) / (high - low), 0, 1).tolist()
    return count_role(sample, ROLES[spec.decides], probs, decided)


def is_probability(spec: SignalSpec) -> bool:
    """Return whether frames rank by values from 0 to 1, which may be calibrated."""
    return (spec.low, spec.high) == (0, 1) and spec.rule.kind.has_values


def summarize_signals(
    specs: Sequence[SignalSpec], videos: Sequence[Mapping[str, DecisionCounts]]
) -> dict[str, dict[str, Any]]:
    """Return title, decision, threshold and scores of each signal that decides, over all videos.

    Calibration (``brier``, ``ece``) is nan unless frames rank by probabilities, which range from 0 to 1.
    """
    found = {}
    for spec in specs:
        if spec.decides is None:
            continue
        scores = summarize_decisions(total_counts(spec.name, videos))
        if not is_probability(spec):
            scores |= {"brier": math.nan, "ece": math.nan}
        about = {"title": spec.title, "decides": spec.decides, "threshold": spec.threshold, "policy": spec.policy}
        found[spec.name] = {**about, "scores": scores}
    return found


def total_counts(name: str, videos: Sequence[Mapping[str, DecisionCounts]]) -> DecisionCounts:
    """Return the counts of a signal over all videos."""
    return Pool([video[name] for video in videos], DecisionCounts).total()

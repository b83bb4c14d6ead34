"""Scores of per-frame decisions (to speak, to update the state) against the frames of the reference's turns.

A frame is *positive* if the model decided to act there, and *expected* if the reference acts there. An *event* is a
positive frame. Frames are scored as a classifier, probabilities by rank and calibration, events one to one in time.

A named signal that decides is scored likewise, with the decisions at its own threshold, or without one with those of
the run. Ranks and calibration are those of its values, scaled from its range to [0, 1] and cut there; for a policy of
falls or rises, of these; of a sum, those of the frames.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.decisions.signals import Decision, SignalSpec
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.updates import assign_pairs, find_near
from stepscope.eval.metrics.counts import Counts, Pool, count_among, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure
from stepscope.eval.metrics.values import Values

TOLERANCES_S = (0.0, 0.5, 1.0, 2.0, 5.0)
NUM_BINS = 10
ROLES: Final[Mapping[Decision, str]] = {"speak": "assistant", "update": "update"}
PREFIXES: Final[Mapping[Decision, str]] = {"speak": "speaking_", "update": "dst_update_"}
"""Prefix of the scores of a decision in ``metrics.toml``, which define those of a signal too."""
_EVENT_SCORES: Final = [
    tuple(f"event_{name}_{tolerance_s:g}s" for name in ("precision", "recall", "f1")) for tolerance_s in TOLERANCES_S
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts(Counts):
    """Counts of one kind of decision in one or many videos.

    A hit is a positive and expected frame, a false alarm only positive, a miss only expected, a rejection neither.
    """

    num_hits: int = 0
    num_false_alarms: int = 0
    num_misses: int = 0
    num_rejections: int = 0
    expected_probs: Values = field(default_factory=Values.of)
    """Known probabilities at expected frames; ``other_probs`` are those at all other frames."""
    other_probs: Values = field(default_factory=Values.of)
    squared_error_sum: float = 0.0
    """Sum over frames of ``(probability - label)**2``, with label 1 for an expected frame and 0 otherwise."""
    bin_frames: tuple[float, ...] = (0.0,) * NUM_BINS
    """Number of known probabilities per bin: bin b holds b/10 <= p < (b+1)/10; the last bin also holds 1."""
    bin_prob_sums: tuple[float, ...] = (0.0,) * NUM_BINS
    bin_expected: tuple[float, ...] = (0.0,) * NUM_BINS
    num_pairs: tuple[float, ...] = (0.0,) * len(TOLERANCES_S)
    """Positive frames paired with an expected frame, for each tolerance of ``TOLERANCES_S``."""
    leads_s: Values = field(default_factory=Values.of)
    """Positive minus expected time of the pairs at the widest tolerance, in seconds; negative is early."""

    @property
    def num_frames(self) -> float:
        """All frames."""
        return self.num_decided + self.num_misses + self.num_rejections

    @property
    def num_decided(self) -> float:
        """Positive frames."""
        return self.num_hits + self.num_false_alarms

    @property
    def num_expected(self) -> float:
        """Expected frames."""
        return self.num_hits + self.num_misses


def count_decisions(
    probs: Sequence[float], decided: Sequence[bool], *, expected_frames: Iterable[int], fps: float
) -> DecisionCounts:
    """Count the decisions of one video of ``T`` frames.

    ``probs`` ``[T]`` are in [0, 1]; a nan is unknown, and no part of the scores of probabilities. ``decided`` has ``T``
    decisions. ``expected_frames`` are those of the reference's turns; two turns at a frame count as one event.
    """
    frames = sorted(set(expected_frames))
    prob, does = np.array(probs, float), np.array(decided, bool)
    expected = np.zeros(len(prob), bool)
    expected[frames] = True
    # 1e-9: a product such as 0.29 * 100, which is 28.99..., counts as the whole number.
    tolerances = [int(tolerance_s * fps + 1e-9) for tolerance_s in TOLERANCES_S]
    offsets_s = [
        [offset / fps for offset in offsets]
        for offsets in _event_offsets(np.flatnonzero(does), np.array(frames, dtype=np.intp), tolerances=tolerances)
    ]
    is_known = ~np.isnan(prob)
    prob, known_expected = prob[is_known], expected[is_known]
    bins = np.minimum((prob * NUM_BINS).astype(int), NUM_BINS - 1)
    return DecisionCounts(
        num_hits=int((does & expected).sum()),
        num_false_alarms=int((does & ~expected).sum()),
        num_misses=int((~does & expected).sum()),
        num_rejections=int((~does & ~expected).sum()),
        expected_probs=Values.of(prob[known_expected]),
        other_probs=Values.of(prob[~known_expected]),
        squared_error_sum=float(((prob - known_expected) ** 2).sum()),
        bin_frames=tuple(np.bincount(bins, minlength=NUM_BINS).tolist()),
        bin_prob_sums=tuple(np.bincount(bins, prob, NUM_BINS).tolist()),
        bin_expected=tuple(np.bincount(bins, known_expected, NUM_BINS).tolist()),
        num_pairs=tuple(len(pairs) for pairs in offsets_s),
        leads_s=Values.of(offsets_s[-1]),
    )


def summarize_decisions(counts: DecisionCounts) -> dict[str, float]:
    """Return all scores of one video, or of a split from added counts; ``eval.metrics.definitions`` defines them.

    Scores that scikit-learn defines have its values. They are nan unless the reference has frames of both classes;
    precision is also nan without positive frames. **Source**: scikit-learn; Guo et al. 2017 (ECE).
    """
    is_mixed = counts.num_expected > 0 and counts.num_frames > counts.num_expected
    recall = ratio(counts.num_hits, counts.num_expected)
    specificity = ratio(counts.num_rejections, counts.num_rejections + counts.num_false_alarms)
    num_known = counts.expected_probs.total + counts.other_probs.total
    error = sum(abs(probs - num) for probs, num in zip(counts.bin_prob_sums, counts.bin_expected, strict=True))
    return {
        "accuracy": ratio(counts.num_hits + counts.num_rejections, counts.num_frames),
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": ratio(counts.num_hits, counts.num_decided) if is_mixed else math.nan,
        "recall": recall if is_mixed else math.nan,
        "f1": ratio(2 * counts.num_hits, counts.num_decided + counts.num_expected) if is_mixed else math.nan,
        **rank_scores(counts.expected_probs, counts.other_probs),
        "brier": ratio(counts.squared_error_sum, num_known),
        "ece": ratio(error, num_known),
        "talk_ratio": ratio(counts.num_decided, counts.num_expected),
        "num_hits": count_among(counts.num_hits, counts.num_frames),
        "num_false_alarms": count_among(counts.num_false_alarms, counts.num_frames),
        "num_misses": count_among(counts.num_misses, counts.num_frames),
        **_event_scores(counts),
    }


def rank_scores(expected: Values, other: Values) -> dict[str, float]:
    """Return how well the probabilities separate expected frames from the rest; nan unless there are both.

    ``average_precision`` is the mean, over expected frames, of the precision at their probability. ``auroc`` is the
    probability that an expected frame has a higher probability than a frame that is not expected, with ties counted
    half: the Mann-Whitney statistic. With expected 0.9 and 0.4 and the rest 0.6 and 0.2: ``average_precision`` =
    (1/1 + 2/3) / 2 and ``auroc`` = 3/4.

    **Source**: ``average_precision_score`` and the area under ``roc_curve`` of scikit-learn, which sorts all frames
    again at each call.
    """
    if not (expected.total and other.total):
        return {"average_precision": math.nan, "auroc": math.nan}
    hits = expected.above(expected.numbers, or_equal=True)
    alarms, above = other.above(expected.numbers, or_equal=True), other.above(expected.numbers)
    precisions = np.divide(hits, hits + alarms, out=np.zeros_like(hits), where=hits > 0)
    below_or_half_tied = other.total - (alarms + above) / 2
    return {
        "average_precision": float((expected.weights * precisions).sum()) / expected.total,
        "auroc": float((expected.weights * below_or_half_tied).sum()) / (expected.total * other.total),
    }


def _event_scores(counts: DecisionCounts) -> dict[str, float]:
    """Score events: a positive frame is correct if it is paired with an expected frame within the tolerance."""
    curve = [ratio(2 * num_pairs, counts.num_decided + counts.num_expected) for num_pairs in counts.num_pairs]
    scores: dict[str, float] = {}
    for (precision, recall, f1), num_pairs, of_curve in zip(_EVENT_SCORES, counts.num_pairs, curve, strict=True):
        scores[precision] = ratio(num_pairs, counts.num_decided)
        scores[recall] = ratio(num_pairs, counts.num_expected)
        scores[f1] = of_curve
    points = pairwise(zip(TOLERANCES_S, curve, strict=True))
    area = sum((end_s - start_s) * (start + end) / 2 for (start_s, start), (end_s, end) in points)
    return {
        **scores,
        "event_f1_area": area / TOLERANCES_S[-1],
        "lead_mean_s": counts.leads_s.mean(),
        "lead_median_s": counts.leads_s.median(),
    }


def _event_offsets(
    gen_frames: NDArray[np.intp], ref_frames: NDArray[np.intp], *, tolerances: Sequence[int]
) -> Iterator[list[int]]:
    """Pair as many events as possible at minimum total distance; yield the offsets in frames for each tolerance.

    Of equal solutions the one without crossing pairs is returned: events at 1 and 2 with references at 3 and 4 have the
    offsets -2 and -2, never -3 and -1. An event on time is paired with another reference if that makes one pair more.
    """
    rows, columns = find_near(gen_frames, ref_frames, reach=tolerances[-1])
    distances = np.abs(gen_frames[rows] - ref_frames[columns]).astype(float)
    for tolerance in tolerances:
        costs = np.where(distances <= tolerance, distances, np.inf)
        links = assign_pairs((rows, columns), costs, shape=(len(gen_frames), len(ref_frames)))
        # in order: no pair gets longer than allowed
        paired_refs = np.sort(ref_frames[[link.ref_index for link in links]])
        yield (gen_frames[[link.gen_index for link in links]] - paired_refs).tolist()


def reference_frames(sample: Sample, role: str) -> list[int]:
    """Return the frames at which the reference has a turn of a role."""
    return [frame_at(turn.time_s, sample.fps) for turn in sample.turns if turn.role == role]


def _list_decided(outputs: Sequence[FrameOutput], decides: Decision) -> list[bool]:
    if decides == "speak":
        return [output.response is not None for output in outputs]
    return [bool(output.updates) for output in outputs]


def count_role(sample: Sample, role: str, probs: Sequence[float], decided: Sequence[bool]) -> DecisionCounts:
    """Count the decisions of one video against the reference's turns of a role.

    Frames without an output are silent, as in ``match_responses``: an early decision finds a reference after the last
    output.
    """
    num_silent = max(0, sample.num_frames - len(decided))
    frames = [frame for frame in reference_frames(sample, role) if frame < len(decided) + num_silent]
    return count_decisions(
        [*probs, *[math.nan] * num_silent], [*decided, *[False] * num_silent], expected_frames=frames, fps=sample.fps
    )


def _count(decides: Decision, video: MatchedVideo) -> DecisionCounts:
    if decides == "update" and not video.has_states:
        return DecisionCounts()
    probs = [output.speak_prob if decides == "speak" else output.update_prob for output in video.outputs]
    return count_role(video.sample, ROLES[decides], probs, _list_decided(video.outputs, decides))


def _summarize(decides: Decision, counts: DecisionCounts) -> dict[str, float]:
    return {f"{PREFIXES[decides]}{name}": value for name, value in summarize_decisions(counts).items()}


def _measure(name: str, decides: Decision) -> Measure[DecisionCounts]:
    count, summarize = partial(_count, decides), partial(_summarize, decides)
    return Measure(name=name, kind=DecisionCounts, count=count, summarize=summarize)


MEASURES = (_measure("speaking", "speak"), _measure("updating", "update"))


def count_signals(
    specs: Sequence[SignalSpec], sample: Sample, outputs: Sequence[FrameOutput]
) -> dict[str, DecisionCounts]:
    """Return the counts of each signal that decides, by name, for one video of ``T`` frames."""
    return {spec.name: _count_signal(spec, sample, outputs) for spec in specs if spec.decides is not None}


def _count_signal(spec: SignalSpec, sample: Sample, outputs: Sequence[FrameOutput]) -> DecisionCounts:
    assert spec.decides is not None
    values = np.array(spec.values([output.signals for output in outputs]), float)  # [T]
    decided = _list_decided(outputs, spec.decides)
    if spec.threshold is not None:
        decided = spec.rule.find_triggers(values, spec.threshold, signal=spec.decides, fps=sample.fps).tolist()
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

"""Per-frame decisions (to speak, to update the state) against the frames where the reference does.

A *decision* is what was done at a frame, a *probability* what the head said there, an *event* a frame with a decision.
Frames score as a classifier, probabilities by rank and calibration, events one to one in time with a tolerance.
Counts pool over videos; whatever has no data is nan.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from eval.matching.assignment import assign
from eval.metrics.counts import Counts, Numbers, Values, ratio

TOLERANCES_S = (0.0, 0.5, 1.0, 2.0, 5.0)
NUM_BINS = 10
NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts(Counts):
    """What is counted of one decision in one or many videos."""

    num_hits: int = 0
    """Frames that decided to, as the reference does."""
    num_false_alarms: int = 0
    """Frames that decided to, and the reference does not."""
    num_misses: int = 0
    """Frames that did not, and the reference does."""
    num_rejections: int = 0
    """Frames that did not, as the reference does not."""
    expected_probs: Values = field(default_factory=Values.of)
    """Known probabilities of the frames where the reference does."""
    other_probs: Values = field(default_factory=Values.of)
    """Known probabilities of all other frames."""
    squared_error_sum: float = 0.0
    """Sum over frames of (probability - 1 or 0)^2."""
    bin_frames: tuple[float, ...] = (0.0,) * NUM_BINS
    """Known probabilities in each tenth of [0, 1]: bin b holds b/10 <= p < (b+1)/10, the last one 1 as well."""
    bin_prob_sums: tuple[float, ...] = (0.0,) * NUM_BINS
    """Sum of their probabilities."""
    bin_expected: tuple[float, ...] = (0.0,) * NUM_BINS
    """Those of them where the reference does."""
    num_pairs: tuple[float, ...] = (0.0,) * len(TOLERANCES_S)
    """Decided frames that are paired with one of the reference, under each tolerance of ``TOLERANCES_S``."""
    leads_s: Values = field(default_factory=Values.of)
    """Decided minus reference time of the pairs under the widest tolerance, in seconds: negative = early."""

    @property
    def num_frames(self) -> float:
        """All frames."""
        return self.num_decided + self.num_misses + self.num_rejections

    @property
    def num_known(self) -> float:
        """Frames whose probability is known."""
        return self.expected_probs.total + self.other_probs.total

    @property
    def num_decided(self) -> float:
        """Frames that decided to."""
        return self.num_hits + self.num_false_alarms

    @property
    def num_expected(self) -> float:
        """Frames where the reference does."""
        return self.num_hits + self.num_misses


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """The frames whose probability lies in one tenth of [0, 1]."""

    low: float
    """Lower edge, included."""
    high: float
    """Upper edge, excluded but for 1."""
    num_frames: float
    """Frames in the bin."""
    mean_prob: float
    """Their mean probability; nan when empty."""
    expected_share: float
    """Share of them where the reference does it; nan when empty."""


def count_decisions(
    probs: Sequence[float], decided: Sequence[bool], *, expected_frames: Iterable[int], fps: float
) -> DecisionCounts:
    """Count one video of T frames: ``probs`` [T], ``decided`` [T], and in ``expected_frames`` the reference's frames.

    Two turns at one frame are one event. A probability that is nan, not known, counts as a decision only. Raises
    ``ValueError`` for unequal lengths, a probability outside [0, 1], a frame outside the video or an fps that is not
    positive.
    """
    frames = sorted(set(expected_frames))
    if len(probs) != len(decided):
        raise ValueError(f"probs and decided must have one length; got {len(probs)} and {len(decided)}")
    if outside := [prob for prob in probs if not (0 <= prob <= 1 or math.isnan(prob))]:
        raise ValueError(f"probabilities must be within [0, 1]; got {outside[0]}")
    if outside_frames := [frame for frame in frames if not 0 <= frame < len(probs)]:
        raise ValueError(f"reference frame {outside_frames[0]} lies outside the video of {len(probs)} frames")
    if not 0 < fps < float("inf"):
        raise ValueError(f"fps must be positive; got {fps}")
    prob, does = np.array(probs, float), np.array(decided, bool)
    expected = np.zeros(len(prob), bool)
    expected[frames] = True
    gen_frames = np.flatnonzero(does).tolist()
    offsets_s = [
        [offset / fps for offset in _event_offsets(gen_frames, frames, tolerance_frames=int(tolerance_s * fps + 1e-9))]
        for tolerance_s in TOLERANCES_S
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

    What scikit-learn computes has its values, but nan unless the reference has frames of both classes (precision also
    when nothing was decided). **Source**: scikit-learn; Guo et al. 2017 (ECE).
    """
    is_mixed = counts.num_expected > 0 and counts.num_frames > counts.num_expected
    recall = ratio(counts.num_hits, counts.num_expected)
    specificity = ratio(counts.num_rejections, counts.num_rejections + counts.num_false_alarms)
    errors = [
        abs(prob_sum - expected) for prob_sum, expected in zip(counts.bin_prob_sums, counts.bin_expected, strict=True)
    ]
    return {
        "accuracy": ratio(counts.num_hits + counts.num_rejections, counts.num_frames),
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": ratio(counts.num_hits, counts.num_decided) if is_mixed else NAN,
        "recall": recall if is_mixed else NAN,
        "f1": ratio(2 * counts.num_hits, counts.num_decided + counts.num_expected) if is_mixed else NAN,
        **rank_scores(counts.expected_probs, counts.other_probs),
        "brier": ratio(counts.squared_error_sum, counts.num_known),
        "ece": ratio(sum(errors), counts.num_known),
        "talk_ratio": ratio(counts.num_decided, counts.num_expected),
        "num_hits": float(counts.num_hits),
        "num_false_alarms": float(counts.num_false_alarms),
        "num_misses": float(counts.num_misses),
        **_event_scores(counts),
    }


def rank_scores(expected: Values, other: Values) -> dict[str, float]:
    """Return how well the probabilities tell expected frames from others; nan unless there are frames of both.

    ``average_precision`` is the mean over expected frames of the precision at their probability; ``auroc`` is how often
    an expected frame has a higher probability than another, ties half, the Mann-Whitney statistic. **Source**:
    ``average_precision_score`` and the area under ``roc_curve`` of scikit-learn, which sorts all frames again at each
    call: 30 times slower in a bootstrap.
    """
    if not (expected.total and other.total):
        return {"average_precision": NAN, "auroc": NAN}
    hits, _ = _reaching(expected, expected.numbers)
    alarms, above = _reaching(other, expected.numbers)
    precisions = np.divide(hits, hits + alarms, out=np.zeros_like(hits), where=hits > 0)
    below_or_half_tied = other.total - (alarms + above) / 2
    return {
        "average_precision": float((expected.weights * precisions).sum()) / expected.total,
        "auroc": float((expected.weights * below_or_half_tied).sum()) / (expected.total * other.total),
    }


def reliability_bins(counts: DecisionCounts) -> tuple[ReliabilityBin, ...]:
    """Return the tenths of [0, 1]; the calibration error is the mean over frames of |mean_prob - expected_share|."""
    return tuple(
        ReliabilityBin(
            low=number / NUM_BINS,
            high=(number + 1) / NUM_BINS,
            num_frames=num_frames,
            mean_prob=ratio(counts.bin_prob_sums[number], num_frames),
            expected_share=ratio(counts.bin_expected[number], num_frames),
        )
        for number, num_frames in enumerate(counts.bin_frames)
    )


def _reaching(values: Values, edges: Numbers) -> tuple[Numbers, Numbers]:
    """Return the weight of the values that reach each edge, and of those that exceed it."""
    below = np.append(0.0, values.weights.cumsum())
    return (
        below[-1] - below[np.searchsorted(values.numbers, edges, "left")],
        below[-1] - below[np.searchsorted(values.numbers, edges, "right")],
    )


def _event_scores(counts: DecisionCounts) -> dict[str, float]:
    """Score events, a decided frame being right when paired with a reference frame no more than the tolerance away."""
    scores, curve = {}, []
    for tolerance_s, num_pairs in zip(TOLERANCES_S, counts.num_pairs, strict=True):
        curve.append(ratio(2 * num_pairs, counts.num_decided + counts.num_expected))
        scores[f"event_precision_{tolerance_s:g}s"] = ratio(num_pairs, counts.num_decided)
        scores[f"event_recall_{tolerance_s:g}s"] = ratio(num_pairs, counts.num_expected)
        scores[f"event_f1_{tolerance_s:g}s"] = curve[-1]
    return {
        **scores,
        "event_f1_area": float(np.trapezoid(curve, TOLERANCES_S)) / TOLERANCES_S[-1],
        "lead_mean_s": counts.leads_s.mean(),
        "lead_median_s": counts.leads_s.median(),
    }


def _event_offsets(gen_frames: Sequence[int], ref_frames: Sequence[int], *, tolerance_frames: int) -> list[int]:
    """Pair as many events as possible, at the least total distance; of equal solutions the one that never crosses."""
    distances = np.abs(np.subtract.outer(np.array(gen_frames, dtype=float), np.array(ref_frames, dtype=float)))
    links = assign(np.where(distances <= tolerance_frames, distances, np.inf))
    paired_refs = sorted(ref_frames[link.ref_index] for link in links)  # in order: no pair gets longer than allowed
    return [gen_frames[link.gen_index] - ref for link, ref in zip(links, paired_refs, strict=True)]

"""Per-frame decisions (to speak, to update the state) against the frames where the reference does.

A *decision* is what was done at a frame, a *probability* what the head said there, an *event* a frame with a decision.
Frames score as a classifier, probabilities by rank and calibration, events one to one in time with a tolerance.
Counts pool over videos; whatever has no data is nan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from eval.assignment import assign
from eval.counts import Counts, mean, share

TOLERANCES_S = (0.0, 0.5, 1.0, 2.0, 5.0)
NUM_BINS = 10
NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMatch:
    """One decided frame that stands for one reference frame."""

    tolerance_s: float
    """The tolerance under which they were paired, in seconds."""
    offset_s: float
    """Decided minus reference time in seconds: negative = early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts(Counts):
    """Frames and event pairs of one or many videos."""

    probs: tuple[float, ...] = ()
    """Per frame, probability of the decision, in [0, 1]."""
    decided: tuple[bool, ...] = ()
    """Per frame, whether it was done."""
    expected: tuple[bool, ...] = ()
    """Per frame, whether the reference does it."""
    matches: tuple[EventMatch, ...] = ()
    """Event pairs under each tolerance of ``TOLERANCES_S``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """The frames whose probability lies in one tenth of [0, 1]."""

    low: float
    """Lower edge, included."""
    high: float
    """Upper edge, excluded but for 1."""
    num_frames: int
    """Frames in the bin."""
    mean_prob: float
    """Their mean probability; nan when empty."""
    expected_share: float
    """Share of them where the reference does it; nan when empty."""


def count_decisions(
    probs: Sequence[float], decided: Sequence[bool], *, expected_frames: Iterable[int], fps: float
) -> DecisionCounts:
    """Count one video of T frames: ``probs`` [T], ``decided`` [T], and in ``expected_frames`` the reference's frames.

    Two turns at one frame are one event. Raises ``ValueError`` for unequal lengths, a probability outside [0, 1], a
    frame outside the video or an fps that is not positive.
    """
    frames = sorted(set(expected_frames))
    if len(probs) != len(decided):
        raise ValueError(f"probs and decided must have one length; got {len(probs)} and {len(decided)}")
    if outside := [prob for prob in probs if not 0 <= prob <= 1]:
        raise ValueError(f"probabilities must be within [0, 1]; got {outside[0]}")
    if outside_frames := [frame for frame in frames if not 0 <= frame < len(probs)]:
        raise ValueError(f"reference frame {outside_frames[0]} lies outside the video of {len(probs)} frames")
    if not 0 < fps < float("inf"):
        raise ValueError(f"fps must be positive; got {fps}")
    gen_frames = [frame for frame, does in enumerate(decided) if does]
    return DecisionCounts(
        probs=tuple(float(prob) for prob in probs),
        decided=tuple(bool(does) for does in decided),
        expected=tuple(frame in set(frames) for frame in range(len(probs))),
        matches=tuple(
            EventMatch(tolerance_s=tolerance_s, offset_s=offset / fps)
            for tolerance_s in TOLERANCES_S
            for offset in _event_offsets(gen_frames, frames, tolerance_frames=int(tolerance_s * fps + 1e-9))
        ),
    )


def summarize_decisions(counts: DecisionCounts) -> dict[str, float]:
    """Return all scores of one video, or of a split from added counts.

    ``accuracy``; ``balanced_accuracy``, ``precision``, ``recall``, ``f1`` as scikit-learn has them, nan unless the
    reference has frames of both classes (precision also when nothing was decided); ``average_precision`` and ``auroc``
    of the probabilities, likewise; ``brier`` and ``ece`` in [0, 1], less is better; ``talk_ratio`` = decided over
    expected frames; ``event_*`` and ``lead_*`` of ``_event_scores``. **Source**: scikit-learn; Guo et al. 2017 (ECE).
    """
    decided, expected, probs = np.array(counts.decided), np.array(counts.expected), np.array(counts.probs)
    scores = dict.fromkeys(("balanced_accuracy", "precision", "recall", "f1", "average_precision", "auroc"), NAN)
    if 0 < expected.sum() < len(expected):
        precision, recall, f1, _ = precision_recall_fscore_support(
            expected, decided, average="binary", zero_division=np.nan
        )
        scores = {
            "balanced_accuracy": float(balanced_accuracy_score(expected, decided)),
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "average_precision": float(average_precision_score(expected, probs)),
            "auroc": float(roc_auc_score(expected, probs)),
        }
    bins = [item for item in reliability_bins(counts) if item.num_frames]
    return {
        "accuracy": mean((decided == expected).tolist()),
        **scores,
        "brier": mean(((probs - expected) ** 2).tolist()),
        "ece": share(sum(item.num_frames * abs(item.mean_prob - item.expected_share) for item in bins), len(probs)),
        "talk_ratio": share(sum(counts.decided), sum(counts.expected)),
        **_event_scores(counts),
    }


def reliability_bins(counts: DecisionCounts) -> tuple[ReliabilityBin, ...]:
    """Return 10 bins of equal width: bin b holds b/10 <= p < (b+1)/10, the last one 1 as well.

    The expected calibration error is the mean over frames of |mean_prob - expected_share| of their bin.
    """
    probs, expected = np.array(counts.probs), np.array(counts.expected)
    numbers = np.minimum((probs * NUM_BINS).astype(int), NUM_BINS - 1)
    return tuple(
        ReliabilityBin(
            low=number / NUM_BINS,
            high=(number + 1) / NUM_BINS,
            num_frames=int((numbers == number).sum()),
            mean_prob=mean(probs[numbers == number].tolist()),
            expected_share=mean(expected[numbers == number].tolist()),
        )
        for number in range(NUM_BINS)
    )


def _event_scores(counts: DecisionCounts) -> dict[str, float]:
    """Score events, a decided frame being right when paired with a reference frame no more than the tolerance away.

    Per tolerance t: ``event_precision_{t}s``, ``event_recall_{t}s``, ``event_f1_{t}s``; ``event_f1_area`` is the area
    under F1 over 0..5 s (trapezoids) divided by 5 s, in [0, 1]. ``lead_mean_s`` and ``lead_median_s`` are over the
    pairs of the widest tolerance, negative = early.
    """
    num_gen, num_ref = sum(counts.decided), sum(counts.expected)
    scores, curve = {}, []
    for tolerance_s in TOLERANCES_S:
        num_pairs = sum(match.tolerance_s == tolerance_s for match in counts.matches)
        curve.append(share(2 * num_pairs, num_gen + num_ref))
        scores[f"event_precision_{tolerance_s:g}s"] = share(num_pairs, num_gen)
        scores[f"event_recall_{tolerance_s:g}s"] = share(num_pairs, num_ref)
        scores[f"event_f1_{tolerance_s:g}s"] = curve[-1]
    offsets = [match.offset_s for match in counts.matches if match.tolerance_s == TOLERANCES_S[-1]]
    return {
        **scores,
        "event_f1_area": float(np.trapezoid(curve, TOLERANCES_S)) / TOLERANCES_S[-1],
        "lead_mean_s": mean(offsets),
        "lead_median_s": median(offsets) if offsets else NAN,
    }


def _event_offsets(gen_frames: Sequence[int], ref_frames: Sequence[int], *, tolerance_frames: int) -> list[int]:
    """Pair as many events as possible, at the least total distance; of equal solutions the one that never crosses."""
    distances = np.abs(np.subtract.outer(np.array(gen_frames, dtype=float), np.array(ref_frames, dtype=float)))
    links = assign(np.where(distances <= tolerance_frames, distances, np.inf))
    paired_refs = sorted(ref_frames[link.ref_index] for link in links)  # in order: no pair gets longer than allowed
    return [gen_frames[link.gen_index] - ref for link, ref in zip(links, paired_refs, strict=True)]

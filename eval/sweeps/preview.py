"""Preview: a sweep from the probabilities of one finished run, without a model.

The probabilities are exact only up to the first decision that differs from the run, after which the model would have
read a different context; the preview applies each threshold to the trace all the same. Each head depends on its own
threshold alone, so it is counted once per threshold, and the points of the grid combine the counts. Texts, states and
the leads of events are not scored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.policies import POLICIES, DecisionPolicy, Signal, find_policy
from eval.data.samples import InvalidSample, Sample, Split
from eval.metrics.decisions import TOLERANCES_S, DecisionCounts, reference_frames
from eval.metrics.score import VideoCounts, decision_f1, score_counts
from eval.runs.folder import RunFolder, explain_missing
from eval.sweeps.grid import DECISION_F1, SWEEP_METRICS, Grid, GridPoint, GridScores

_LEADS: Final = ("_lead_mean_s", "_lead_median_s")
_PREFIXES: Final = ("speaking_", "dst_update_")
PREVIEW_METRICS: Final = (
    DECISION_F1,
    *(name for name in SWEEP_METRICS if name.startswith(_PREFIXES) and not name.endswith(_LEADS)),
)
"""The scores of a preview, in the order of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadTrace:
    """The probabilities of one head in one video of ``T`` frames, and its ``R`` reference frames."""

    probs: NDArray[np.float64]
    """Probabilities ``[T]`` in [0, 1]."""
    expected_frames: NDArray[np.intp]
    """Ascending, distinct frame indices ``[R]``."""
    fps: float
    """Frames per second."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traces:
    """The probabilities of a run, read once for any number of grids."""

    split: str
    """File of the split."""
    policy: DecisionPolicy
    """The decision policy of the run."""
    speaking: tuple[HeadTrace, ...]
    """Per video."""
    updating: tuple[HeadTrace, ...]
    """Per video."""
    errors: Mapping[str, str]
    """Per video without a trace, the reason."""


def read_traces(folder: Path, split: Split) -> Traces:
    """Read the probabilities of a split's videos from a run folder.

    Raises ``ValueError`` if no video has any.
    """
    run, errors = RunFolder(folder), dict[str, str]()
    settings = run.settings()
    if settings is None:
        raise ValueError(f"{folder} holds no run; name the folder of a finished run of {split.path}")
    speaking, updating = [], []
    for entry in split.entries:
        try:
            speaks, updates = _read_video(run, entry)
        except ValueError as error:
            errors[entry.video_id] = str(error)
            continue
        speaking.append(speaks)
        updating.append(updates)
    if not speaking:
        reason = next(iter(errors.values()), "the split holds no videos")
        raise ValueError(f"{folder} has no probabilities of a video of {split.path}: {reason}")
    return Traces(
        split=str(split.path),
        policy=find_policy(settings.get("config", {}).get("decision_policy", "heads")),
        speaking=tuple(speaking),
        updating=tuple(updating),
        errors=errors,
    )


def preview(traces: Traces, grid: Grid) -> GridScores:
    """Score the decisions of both heads at every point of a grid."""
    speaking = [
        _scores(VideoCounts(speaking=counts), "speaking_")
        for counts in count_thresholds(traces.speaking, grid.speak, policy=traces.policy)
    ]
    updating = [
        _scores(VideoCounts(updating=counts), "dst_update_")
        for counts in count_thresholds(traces.updating, grid.update, policy=traces.policy, signal="update")
    ]
    points = tuple(
        GridPoint(speak_threshold=speak, update_threshold=update, scores=_both({**speak_scores, **update_scores}))
        for update, update_scores in zip(grid.update, updating, strict=True)
        for speak, speak_scores in zip(grid.speak, speaking, strict=True)
    )
    return GridScores(
        split=traces.split,
        is_exact=False,
        grid=grid,
        points=points,
        num_videos=len(traces.speaking),
        errors=traces.errors,
    )


def count_thresholds(
    traces: Sequence[HeadTrace],
    thresholds: Sequence[float],
    *,
    policy: DecisionPolicy = POLICIES["heads"],
    signal: Signal = "speak",
) -> list[DecisionCounts]:
    """Count one head's decisions in many videos at each of K thresholds, without leads and probabilities."""
    levels = np.array(thresholds)[:, None]
    hits, decided = np.zeros(len(levels)), np.zeros(len(levels))
    pairs = np.zeros((len(levels), len(TOLERANCES_S)))
    for trace in traces:
        fires = policy.find_triggers(trace.probs, levels, signal=signal)
        hits += fires[:, trace.expected_frames].sum(axis=1)
        decided += fires.sum(axis=1)
        pairs += _count_pairs(fires, trace)
    num_frames = sum(len(trace.probs) for trace in traces)
    num_expected = sum(len(trace.expected_frames) for trace in traces)
    return [
        DecisionCounts(
            num_hits=int(hits[k]),
            num_false_alarms=int(decided[k] - hits[k]),
            num_misses=int(num_expected - hits[k]),
            num_rejections=int(num_frames - num_expected - decided[k] + hits[k]),
            num_pairs=tuple(pairs[k].tolist()),
        )
        for k in range(len(levels))
    ]


def _count_pairs(fires: NDArray[np.bool_], trace: HeadTrace) -> NDArray[np.intp]:
    """Return the number of pairs of events ``fires`` [K, T] and reference frames, ``[K, tolerances]``.

    Each reference frame in turn takes the first free event within the tolerance. With windows of equal width, no
    pairing has more pairs. For events at frames 2 and 3, references at 3 and 4 and a tolerance of 1 frame, reference 3
    takes event 2 and reference 4 takes event 3: two pairs.
    """
    num_frames = fires.shape[1]
    at = np.where(fires, np.arange(num_frames), num_frames)
    following = np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1]  # [K, T]: the first event from a frame on
    following = np.pad(following, ((0, 0), (0, 1)), constant_values=num_frames)
    reach = np.array([int(tolerance_s * trace.fps + 1e-9) for tolerance_s in TOLERANCES_S])
    rows = np.arange(len(fires))[:, None]
    free = np.zeros((len(fires), len(reach)), dtype=np.intp)
    counts = np.zeros_like(free)
    for frame in trace.expected_frames.tolist():
        event = following[rows, np.maximum(free, frame - reach)]
        is_near = event <= np.minimum(frame + reach, num_frames - 1)
        free = np.where(is_near, event + 1, free)
        counts += is_near
    return counts


def _scores(counts: VideoCounts, prefix: str) -> dict[str, float]:
    scores = score_counts(counts)
    return {name: scores[name] for name in PREVIEW_METRICS if name.startswith(prefix)}


def _both(scores: Mapping[str, float]) -> dict[str, float]:
    return {DECISION_F1: decision_f1(scores), **scores}


def _read_video(run: RunFolder, entry: Sample | InvalidSample) -> list[HeadTrace]:
    """Return the traces of speaking and of updating. Raises ``ValueError`` if the video has none."""
    reason = explain_missing(entry, run.record(entry.video_id))
    if reason or isinstance(entry, InvalidSample):
        raise ValueError(reason)
    outputs = run.outputs(entry)
    return [
        _trace(entry, "assistant", [output.speak_prob for output in outputs]),
        _trace(entry, "update", [output.update_prob for output in outputs]),
    ]


def _trace(sample: Sample, role: str, probs: Sequence[float]) -> HeadTrace:
    known = np.array(probs, float)
    if np.isnan(known).any():
        raise ValueError("its outputs hold no probabilities, as those of an imported system")
    frames = sorted({frame for frame in reference_frames(sample, role) if frame < len(known)})
    return HeadTrace(probs=known, expected_frames=np.array(frames, dtype=np.intp), fps=sample.fps)

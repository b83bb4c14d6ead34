"""Preview: a sweep from the probabilities or the named signals of one finished run, without a model.

The values are exact only up to the first decision that differs from the run, after which the model would have read a
different context; the preview applies each threshold to the trace all the same. Each signal depends on its own
threshold alone, so it is counted once per threshold, and the points of the grid combine the counts. Texts, states and
the leads of events are not scored.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy, Signal
from stepscope.engine.decisions.signals import Decision
from stepscope.eval.metrics.decisions import TOLERANCES_S, DecisionCounts, summarize_decisions
from stepscope.eval.metrics.score import decision_f1
from stepscope.eval.metrics.signals import PREFIXES
from stepscope.eval.sweeps.best_point import PresentPoint
from stepscope.eval.sweeps.grid import DECISION_F1, SWEEP_METRICS, Grid, GridScores
from stepscope.eval.sweeps.traces import Choice, Trace, TracedSignal, Traces, make_choice_grid

_LEADS: Final = ("_lead_mean_s", "_lead_median_s")
PREVIEW_METRICS: Final = (
    DECISION_F1,
    *(name for name in SWEEP_METRICS if name.startswith(tuple(PREFIXES.values())) and not name.endswith(_LEADS)),
)
"""The scores of a preview, in the order of the tables."""


def preview(traces: Traces, grid: Grid) -> GridScores:
    """Score the decisions of both signals of a grid at each of its points.

    Raises ``ValueError`` if the traces lack a signal of the grid, or if no video has values of all.
    """
    signals = [_find_signal(traces, grid, decides) for decides in grid.titles]
    errors = dict(traces.errors)
    for signal in signals:
        known = {video_id for other in traces.signals for video_id in other.videos}
        for video_id in sorted(known - signal.videos.keys()):
            errors.setdefault(video_id, f"its outputs hold no values of {signal.name}")
    if not (videos := [video_id for video_id in signals[0].videos if video_id not in errors]):
        raise ValueError(f"no video has values of {' and '.join(signal.name for signal in signals)}")
    axes = {"speak": grid.speak, "update": grid.update}
    scores: dict[str, list[dict[str, float]]] = {decides: [{}] for decides in axes}
    for signal in signals:
        counts = [DecisionCounts()] * len(axes[signal.decides])  # undefined without updates, as in an exact sweep
        if signal.decides == "speak" or signal.policy.has_updates:
            counts = count_thresholds(
                [signal.videos[video_id] for video_id in videos],
                axes[signal.decides],
                policy=signal.policy,
                signal=signal.decides,
            )
        scores[signal.decides] = [_scores(PREFIXES[signal.decides], one) for one in counts]
    both = [{**speak, **update} for update in scores["update"] for speak in scores["speak"]]
    return GridScores(
        split=traces.split,
        is_exact=False,
        grid=grid if grid.specs else replace(grid, policy=signals[0].policy),
        points=tuple({DECISION_F1: decision_f1(point), **point} for point in both),
        num_videos=len(videos),
        errors=errors,
    )


def preview_present(traces: Traces, choice: Choice) -> PresentPoint | None:
    """Score the thresholds of the run, also off the grid; None if one that is swept is unknown."""
    if any(signal is not None and math.isnan(signal.threshold) for signal in choice):
        return None
    speak, update = (math.nan if signal is None else signal.threshold for signal in choice)
    (scores,) = preview(traces, make_choice_grid(choice, lambda signal: (signal.threshold,))).points
    return PresentPoint(thresholds=(speak, update), scores=scores)


def _find_signal(traces: Traces, grid: Grid, decides: Decision) -> TracedSignal:
    spec = grid.specs.get(decides)
    return traces.find(f"{decides}_prob" if spec is None else spec.name)


def count_thresholds(
    traces: Sequence[Trace],
    thresholds: Sequence[float],
    *,
    policy: DecisionPolicy = POLICIES["heads"],
    signal: Signal = "speak",
) -> list[DecisionCounts]:
    """Count one signal's decisions in many videos at each of K thresholds, without leads and probabilities."""
    levels = np.array(thresholds)[:, None]
    hits, decided = np.zeros(len(levels)), np.zeros(len(levels))
    pairs = np.zeros((len(levels), len(TOLERANCES_S)))
    for trace in traces:
        fires = policy.find_triggers(trace.values, levels, signal=signal, fps=trace.fps)
        hits += fires[:, trace.expected_frames].sum(axis=1)
        decided += fires.sum(axis=1)
        pairs += _count_pairs(fires, trace)
    num_frames = sum(len(trace.values) for trace in traces)
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


def _count_pairs(fires: NDArray[np.bool_], trace: Trace) -> NDArray[np.intp]:
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


def _scores(prefix: str, counts: DecisionCounts) -> dict[str, float]:
    scores = summarize_decisions(counts)
    return {name: scores[name.removeprefix(prefix)] for name in PREVIEW_METRICS if name.startswith(prefix)}

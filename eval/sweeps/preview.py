"""Preview: a sweep from the probabilities or the named signals of one finished run, without a model.

The values are exact only up to the first decision that differs from the run, after which the model would have read a
different context; the preview applies each threshold to the trace all the same. Each signal depends on its own
threshold alone, so it is counted once per threshold, and the points of the grid combine the counts. Texts, states and
the leads of events are not scored.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy, Signal
from stepscope.engine.decisions.signals import Decision, SignalSpec
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.metrics.decisions import (
    PREFIXES,
    ROLES,
    TOLERANCES_S,
    DecisionCounts,
    reference_frames,
    summarize_decisions,
)
from stepscope.eval.metrics.score import decision_f1
from stepscope.eval.runs.folder import RunFolder, explain_unscored, read_policy
from stepscope.eval.sweeps.best_point import PresentPoint
from stepscope.eval.sweeps.grid import DECISION_F1, SWEEP_METRICS, Grid, GridScores, make_axis

PROBABILITIES: Final[Mapping[str, Decision]] = {"speak_prob": "speak", "update_prob": "update"}
"""Names of the model's probabilities, and their decisions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalTrace:
    """The values of one signal in one video of ``T`` frames, and its ``R`` reference frames."""

    values: NDArray[np.float64]
    """Values ``[T]``; nan if unknown."""
    expected_frames: NDArray[np.intp]
    """Ascending, distinct frame indices ``[R]``."""
    fps: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedSignal:
    """A signal of a run with its traces."""

    name: str
    """Name of a signal, or one of ``PROBABILITIES``."""
    decides: Decision
    policy: DecisionPolicy
    spec: SignalSpec | None
    """Description of a named signal; None for a probability."""
    threshold: float
    """Threshold of the run; nan without one."""
    videos: dict[str, SignalTrace] = field(default_factory=dict)
    """By id; a video without a known value is missing."""

    @property
    def title(self) -> str:
        """Name in texts."""
        return self.decides if self.spec is None else self.spec.title

    def make_axis(self, size: int) -> tuple[float, ...]:
        """Return ``size`` thresholds over the middle 90 % of the range of its rule."""
        if self.spec is None:
            return make_axis(size)
        levels = [self.policy.levels(trace.values, fps=trace.fps) for trace in self.videos.values()]
        num_turns = sum(len(trace.expected_frames) for trace in self.videos.values())
        low, high = self.policy.kind.axis(self.spec.low, self.spec.high, levels, num_turns)
        return make_axis(size, low=low, high=high)


Choice = tuple[TracedSignal | None, TracedSignal | None]
"""The signal that speaks and the signal that updates; None for a decision that is not swept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traces:
    """The signals of a run, read once for any number of grids."""

    split: str
    signals: tuple[TracedSignal, ...]
    """The probabilities first."""
    errors: Mapping[str, str]
    """Per video without a trace, the reason."""

    def choices(self) -> list[Choice]:
        """Return the pairs of signals that can be swept together, the default first."""
        speaks, updates = (
            [signal for signal in self.signals if signal.decides == decides] for decides in ("speak", "update")
        )
        return list(product(speaks or (None,), updates or (None,)))

    def choose(self, names: Sequence[str] = ()) -> Choice:
        """Return the signals of these names, by default the first choice.

        Raises ``ValueError`` for an unknown name, and for two signals of one decision.
        """
        if not names:
            return self.choices()[0]
        known = {signal.name: signal for signal in self.signals}
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"the run has no signal {unknown[0]!r} that decides; choose from {', '.join(known)}")
        chosen = {known[name].decides: known[name] for name in names}
        if len(chosen) < len(names):
            raise ValueError(f"{' and '.join(names)} make the same decision; choose one of them")
        return chosen.get("speak"), chosen.get("update")


def describe_choice(choice: Choice) -> str:
    """Return the titles of the chosen signals, such as ``speak and update``."""
    return " and ".join(signal.title for signal in choice if signal is not None)


def make_choice_grid(choice: Choice, axis_of: Callable[[TracedSignal], tuple[float, ...]]) -> Grid:
    """Return the grid over the thresholds of each chosen signal."""
    speak, update = choice
    return Grid(
        speak=() if speak is None else axis_of(speak),
        update=() if update is None else axis_of(update),
        speak_spec=None if speak is None else speak.spec,
        update_spec=None if update is None else update.spec,
    )


def read_traces(folder: Path, split: Split) -> Traces:
    """Read the values of a split's videos from a run folder.

    Raises ``ValueError`` if no video has any.
    """
    run, errors = RunFolder(folder), dict[str, str]()
    settings = run.settings()
    if settings is None:
        raise ValueError(f"{folder} holds no run; name the folder of a finished run of {split.path}")
    described = list(_describe(settings, run.signals()))
    for entry in split.entries:
        try:
            _add_traces(run, entry, described)
        except ValueError as error:
            errors[entry.video_id] = str(error)
    signals = tuple(signal for signal in described if signal.videos)
    if not signals:
        reason = next(iter(errors.values()), "the split holds no videos")
        raise ValueError(f"{folder} has no probabilities of a video of {split.path}: {reason}")
    return Traces(split=str(split.path), signals=signals, errors=errors)


def _describe(settings: Mapping[str, Any], specs: Sequence[SignalSpec]) -> Iterator[TracedSignal]:
    """Yield the signals of a run that decide, without traces."""
    config, policy = settings.get("config", {}), read_policy(settings)
    for name, decides in PROBABILITIES.items():
        if decides == "speak" or policy.has_updates:
            threshold = config.get(f"{decides}_threshold", math.nan)
            yield TracedSignal(name=name, decides=decides, policy=policy, spec=None, threshold=threshold)
    for spec in specs:
        if spec.decides is not None:
            threshold = math.nan if spec.threshold is None else spec.threshold
            yield TracedSignal(name=spec.name, decides=spec.decides, policy=spec.rule, spec=spec, threshold=threshold)


def _add_traces(run: RunFolder, entry: Sample | InvalidSample, signals: Sequence[TracedSignal]) -> None:
    """Add a video to the signals that have values in it. Raises ``ValueError`` if none has."""
    reason = explain_unscored(entry, run.record(entry.video_id))
    if reason or isinstance(entry, InvalidSample):
        raise ValueError(reason)
    outputs = run.outputs(entry)
    frames = [output.signals for output in outputs]
    for signal in signals:
        spec, name = signal.spec, signal.name
        values = [getattr(output, name) for output in outputs] if spec is None else spec.values(frames)
        if not all(map(math.isnan, values)):
            signal.videos[entry.video_id] = _trace(entry, signal.decides, values)
    if not any(entry.video_id in signal.videos for signal in signals):
        raise ValueError("its outputs hold no probabilities, as those of an imported system")


def _trace(sample: Sample, decides: Decision, values: Sequence[float]) -> SignalTrace:
    silent = [math.nan] * (sample.num_frames - len(values))  # as in ``count_role``
    values = [*values, *silent]
    frames = sorted({frame for frame in reference_frames(sample, ROLES[decides]) if frame < len(values)})
    return SignalTrace(values=np.array(values, float), expected_frames=np.array(frames, dtype=np.intp), fps=sample.fps)


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
    known = {video_id for other in traces.signals for video_id in other.videos}
    for signal in signals:
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
    name = f"{decides}_prob" if spec is None else spec.name
    found = next((signal for signal in traces.signals if signal.name == name), None)
    if found is None:
        raise ValueError(f"the run has no values of {name}")
    return found


def count_thresholds(
    traces: Sequence[SignalTrace],
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


def _count_pairs(fires: NDArray[np.bool_], trace: SignalTrace) -> NDArray[np.intp]:
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

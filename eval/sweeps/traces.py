"""The traces that a preview needs: the values of each signal that decides, in each video of a run.

A signal is a probability of the model, ``speak_prob`` or ``update_prob``, or a named signal of a recorded or imported
run. Only signals with values are kept, so a run may have signals of one decision alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.decisions.policies import DecisionPolicy, find_policy
from stepscope.engine.decisions.signals import Decision, SignalSpec
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.metrics.decisions import reference_frames
from stepscope.eval.metrics.signals import ROLES
from stepscope.eval.runs.folder import RunFolder, explain_unscored
from stepscope.eval.sweeps.grid import Grid, make_axis

PROBABILITIES: Final[Mapping[str, Decision]] = {"speak_prob": "speak", "update_prob": "update"}
"""Names of the model's probabilities, and their decisions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
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
    videos: Mapping[str, Trace]
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

    def find(self, name: str) -> TracedSignal:
        """Return a signal by name. Raises ``ValueError`` if the run does not have it."""
        found = next((signal for signal in self.signals if signal.name == name), None)
        if found is None:
            raise ValueError(f"the run has no values of {name}")
        return found


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
    specs = [spec for spec in run.signals() if spec.decides is not None]
    traces: dict[str, dict[str, Trace]] = {name: {} for name in (*PROBABILITIES, *(spec.name for spec in specs))}
    for entry in split.entries:
        try:
            for name, trace in _read_video(run, entry, specs).items():
                traces[name][entry.video_id] = trace
        except ValueError as error:
            errors[entry.video_id] = str(error)
    signals = [signal for signal in _describe(settings, specs, traces) if signal.videos]
    if not signals:
        reason = next(iter(errors.values()), "the split holds no videos")
        raise ValueError(f"{folder} has no probabilities of a video of {split.path}: {reason}")
    return Traces(split=str(split.path), signals=tuple(signals), errors=errors)


def _describe(
    settings: Mapping[str, Any], specs: Sequence[SignalSpec], traces: Mapping[str, Mapping[str, Trace]]
) -> Iterator[TracedSignal]:
    config = settings.get("config", {})
    policy = find_policy(config.get("decision_policy", "heads"))
    for name, decides in PROBABILITIES.items():
        if decides == "update" and not policy.has_updates:
            continue
        threshold = config.get(f"{decides}_threshold", math.nan)
        yield TracedSignal(
            name=name, decides=decides, policy=policy, spec=None, threshold=threshold, videos=traces[name]
        )
    for spec in specs:
        if spec.decides is not None:
            threshold = math.nan if spec.threshold is None else spec.threshold
            yield TracedSignal(
                name=spec.name,
                decides=spec.decides,
                policy=spec.rule,
                spec=spec,
                threshold=threshold,
                videos=traces[spec.name],
            )


def _read_video(run: RunFolder, entry: Sample | InvalidSample, specs: Sequence[SignalSpec]) -> dict[str, Trace]:
    """Return the trace of each signal with values. Raises ``ValueError`` if the video has none."""
    reason = explain_unscored(entry, run.record(entry.video_id))
    if reason or isinstance(entry, InvalidSample):
        raise ValueError(reason)
    outputs = run.outputs(entry)
    frames = [output.signals for output in outputs]
    values = {"speak_prob": [output.speak_prob for output in outputs]}
    values["update_prob"] = [output.update_prob for output in outputs]
    decisions = {**PROBABILITIES}
    for spec in specs:
        if spec.decides is not None:
            values[spec.name], decisions[spec.name] = spec.values(frames), spec.decides
    found = {name: _trace(entry, decisions[name], one) for name, one in values.items() if not _is_unknown(one)}
    if not found:
        raise ValueError("its outputs hold no probabilities, as those of an imported system")
    return found


def _is_unknown(values: Sequence[float]) -> bool:
    return all(math.isnan(value) for value in values)


def _trace(sample: Sample, decides: Decision, values: Sequence[float]) -> Trace:
    frames = sorted({frame for frame in reference_frames(sample, ROLES[decides]) if frame < len(values)})
    return Trace(values=np.array(values, float), expected_frames=np.array(frames, dtype=np.intp), fps=sample.fps)

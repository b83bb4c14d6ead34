"""The run of one video as a figure draws it: its turns, decisions and signals."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

import numpy as np

from stepscope.app.figures.timeline.bands import expected_frames
from stepscope.engine.config import StreamConfig, format_threshold
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.policies import DecisionPolicy, TriggerCounter, convert_theta
from stepscope.engine.decisions.policies import Signal as SignalName
from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.records import FrameOutput, Step, UserTurn
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.failures import LATE_S, JudgedVideo

_COMPARISONS: Final = {">": ">", ">=": "≥", "> or 1": ">"}
_LINES: Final = ("latency", "user", "done", "reference")
"""Colours of named signals, in turn, as in the player."""


class Decisions(NamedTuple):
    """The frames of the decisions of one signal, by their relation to the reference; each in order."""

    in_time: list[int]
    """Decisions that are paired with a reference frame; without a reference all decisions."""
    unexpected: list[int]
    """Decisions without a reference frame."""
    undecided: list[int]
    """Reference frames without a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A value per frame that decisions are made from."""

    name: str
    """Name in the palette and in tables, such as ``speak``."""
    label: str
    """Name in figures, such as ``P(speak)``."""
    values: Sequence[float]
    """One per frame, on the axis; nan if unknown."""
    threshold: float | None
    """None without a decision on this signal."""
    condition: str
    """Condition of a decision, such as ``> 0.50``; empty without a threshold."""
    decisions: Decisions
    low: float = 0.0
    """Lower end of the axis."""
    high: float = 1.0
    """Upper end of the axis."""
    colour: str = ""
    """Name in the palette; empty for ``name``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRun:
    """The run of one video, finished or stopped."""

    video_id: str
    run_name: str
    fps: float
    duration_s: float
    steps: tuple[Step, ...]
    initial_state: Mapping[str, str]
    user_turns: tuple[UserTurn, ...]
    """The user turns that the run had."""
    outputs: Sequence[FrameOutput]
    """One per frame."""
    sample: Sample | None
    """The reference; None without one."""
    judged: JudgedVideo | None
    """The matched turns and failures; None without a reference."""
    signals: tuple[Signal, ...]
    """From the top."""
    letter: str = ""
    """``A`` or ``B`` where two runs are compared; otherwise empty."""
    has_states: bool = True
    """Whether the states of the steps in the outputs are the system's own."""

    @property
    def reached_s(self) -> float:
        """End of the last frame, in seconds."""
        return self.outputs[-1].time_s + 1 / self.fps if self.outputs else 0.0

    def time_of(self, frame: int) -> float:
        """Return the time of a frame in seconds, also of one that the run did not reach."""
        return self.outputs[frame].time_s if 0 <= frame < len(self.outputs) else max(0, frame) / self.fps


def make_timeline_run(
    *,
    video_id: str,
    run_name: str,
    task: Task,
    config: StreamConfig,
    outputs: Sequence[FrameOutput],
    duration_s: float,
    sample: Sample | None,
    judged: JudgedVideo | None,
    letter: str = "",
    specs: Sequence[SignalSpec] = (),
    has_states: bool = True,
) -> TimelineRun:
    """Return the run of a video that was streamed with a task and settings."""
    return TimelineRun(
        video_id=video_id,
        run_name=run_name,
        fps=config.fps,
        duration_s=duration_s,
        steps=task.steps,
        initial_state=task.initial_state,
        user_turns=task.all_user_turns,
        outputs=outputs,
        sample=sample,
        judged=judged,
        signals=(
            *read_signals(config, outputs, sample, specs=specs),
            *read_named_signals(specs, config, outputs, sample),
        ),
        letter=letter,
        has_states=has_states,
    )


def read_named_signals(
    specs: Sequence[SignalSpec], config: StreamConfig, outputs: Sequence[FrameOutput], sample: Sample | None
) -> tuple[Signal, ...]:
    """Return the named signals; those that decide and have a threshold with the decisions at that threshold."""
    expected = expected_frames(sample) if sample is not None else None
    frames, signals = [output.signals for output in outputs], []
    for number, spec in enumerate(specs):
        decisions, condition, values = Decisions([], [], []), "", spec.values(frames)
        if spec.threshold is not None:
            condition = _describe(spec.rule, spec.threshold)
            if spec.decides is not None:
                triggers = np.flatnonzero(spec.rule.find_triggers(values, spec.threshold, signal=spec.decides)).tolist()
                reached = None if expected is None else _reached(expected[spec.decides], len(outputs))
                decisions = pair_decisions(triggers, reached, tolerance_frames=int(LATE_S * config.fps + 1e-9))
        levels, (low, high) = compute_levels(spec, values), level_range(spec, values)
        signals.append(
            Signal(
                name=spec.name,
                label=spec.title,
                values=levels,
                threshold=spec.threshold,
                condition=condition,
                decisions=decisions,
                low=low,
                high=high,
                colour=_LINES[number % len(_LINES)],
            )
        )
    return tuple(signals)


def compute_levels(spec: SignalSpec, values: Sequence[float]) -> list[float]:
    """Return the numbers that a signal compares with its threshold; the values themselves without one."""
    if spec.threshold is None or spec.rule.level == "value":
        return list(values)
    counter = TriggerCounter(policy=spec.rule, signal=spec.decides or "speak", threshold=spec.threshold)
    return [counter.add_level(value) for value in values]


def level_range(spec: SignalSpec, values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis of a signal, as the player has them."""
    if spec.threshold is None or spec.rule.level == "value":
        return spec.low, spec.high
    if spec.rule.level in ("drop", "rise"):
        return spec.low - spec.high, spec.high - spec.low
    return 0.0, 1.25 * max([spec.threshold, *(v for v in compute_levels(spec, values) if not math.isnan(v))]) or 1.0


def read_signals(
    config: StreamConfig, outputs: Sequence[FrameOutput], sample: Sample | None, *, specs: Sequence[SignalSpec] = ()
) -> tuple[Signal, ...]:
    """Return the signals of both decisions, as far as the policy decides on them or a value is known.

    A probability that is not known gives way to named signals (``specs``) that decide the same.
    """
    replaced = {spec.decides for spec in specs}
    expected = expected_frames(sample) if sample is not None else None
    values: dict[SignalName, list[float]] = {
        "speak": [output.speak_prob for output in outputs],
        "update": [output.update_prob for output in outputs],
    }
    decided: dict[SignalName, list[int]] = {
        "speak": [output.frame_index for output in outputs if output.response is not None],
        "update": [output.frame_index for output in outputs if output.updates],
    }
    policy, tolerance = config.policy, int(LATE_S * config.fps + 1e-9)
    signals = []
    for name in get_args(SignalName):
        has_threshold = name == "speak" or policy.has_updates
        if not (has_threshold or decided[name]) or not (decided[name] or _has_known(values[name])):
            continue
        if name in replaced and not _has_known(values[name]):
            continue
        reached = None if expected is None else _reached(expected[name], len(outputs))
        threshold = config.threshold(name)
        signals.append(
            Signal(
                name=name,
                label=f"P({name})",
                values=values[name],
                threshold=threshold if has_threshold else None,
                condition=_describe(policy, threshold) if has_threshold else "",
                decisions=pair_decisions(decided[name], reached, tolerance_frames=tolerance),
            )
        )
    return tuple(signals)


def _reached(expected: list[int], num_frames: int) -> list[int]:
    return expected[: bisect_left(expected, num_frames)]


def _describe(policy: DecisionPolicy, threshold: float) -> str:
    """Return the condition of a decision, as ``conditionText`` of the player does."""
    level = "" if policy.level == "value" else f"{policy.level} "
    count = f", {policy.frames_in_a_row} in a row" if policy.frames_in_a_row > 1 else ""
    theta = f" (theta {format_threshold(convert_theta(threshold))})" if policy.has_theta else ""
    return f"{level}{_COMPARISONS[policy.comparison]} {format_threshold(threshold)}{theta}{count}"


def pair_decisions(decided: Sequence[int], expected: Sequence[int] | None, *, tolerance_frames: int) -> Decisions:
    """Pair as many decisions as possible with reference frames, at most ``tolerance_frames`` apart.

    Both lists are sorted. The pairs are those of ``EventPairs`` in the player's ``data.js``, and as many as those of
    ``eval.metrics.decisions``.
    """
    if expected is None:
        return Decisions(list(decided), [], [])
    found, waiting = Decisions([], [], []), list(expected)
    for frame in decided:
        while waiting and frame - waiting[0] > tolerance_frames:
            found.undecided.append(waiting.pop(0))
        if waiting and waiting[0] - frame <= tolerance_frames:
            found.in_time.append(frame)
            waiting.pop(0)
        else:
            found.unexpected.append(frame)
    found.undecided.extend(waiting)
    return found


def _has_known(values: Sequence[float]) -> bool:
    return any(not math.isnan(value) for value in values)

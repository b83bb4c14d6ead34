"""One run as the page shows it: the clip, the task, the settings, and the outputs so far; states over time.

Reference states are folded here from the reference's updates, as the engine folds the model's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.clips import Clip
from engine.config import StreamConfig
from engine.control import Task
from engine.dialogue import Verdict, apply_update, initial_state
from engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, finished or not."""

    clip: Clip
    """The video."""
    task: Task
    """Goal, steps and user turns as they were when it began."""
    config: StreamConfig
    """Settings as they were when it began."""
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame so far."""

    @property
    def reached_s(self) -> float:
        """Time of the last frame, in seconds."""
        return self.outputs[-1].time_s if self.outputs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The states of all steps from a time on."""

    time_s: float
    """Seconds from the start of the video."""
    state: Mapping[str, str]
    """State of each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time during which one step has one state."""

    step_id: str
    """The step."""
    state: str
    """Its state."""
    start_s: float
    """When it begins, in seconds."""
    end_s: float
    """When it ends, in seconds."""


def judge_updates(run: Run) -> dict[int, tuple[Verdict, ...]]:
    """Say of every update whether it was legal, illegal or malformed: verdicts by frame."""
    state: Mapping[str, str] = initial_state(run.task.steps, run.task.initial_state)
    verdicts = {}
    for output in run.outputs:
        judged = list[Verdict]()
        for text in output.updates:
            change = apply_update(state, text, illegal=run.config.illegal_updates)
            state = change.state
            judged.append(change.verdict)
        if judged:
            verdicts[output.frame_index] = tuple(judged)
    return verdicts


def predicted_moments(run: Run) -> list[Moment]:
    """Return the states that the model believed in, from the start on."""
    start = Moment(time_s=0.0, state=initial_state(run.task.steps, run.task.initial_state))
    return [start, *(Moment(time_s=output.time_s, state=output.dst_state) for output in run.outputs)]


def reference_moments(run: Run) -> list[Moment]:
    """Return the reference's states up to where the run came; none without a reference."""
    sample = run.clip.sample
    if sample is None:
        return []
    moments = [Moment(time_s=0.0, state=initial_state(sample.steps, sample.initial_state))]
    for turn in sample.turns:
        if turn.role == "update" and turn.time_s <= run.reached_s:
            state = apply_update(moments[-1].state, turn.text).state
            moments.append(Moment(time_s=turn.time_s, state=state))
    return moments


def spans(moments: list[Moment], *, step_id: str, end_s: float) -> Iterator[Span]:
    """Join equal states of one step into spans; nothing for a step that the moments do not know."""
    begun = None
    for moment in moments:
        state = moment.state.get(step_id)
        if begun is None or begun.state.get(step_id) != state:
            if begun is not None:
                yield from _span(begun, step_id=step_id, end_s=moment.time_s)
            begun = moment
    if begun is not None:
        yield from _span(begun, step_id=step_id, end_s=end_s)


def _span(begun: Moment, *, step_id: str, end_s: float) -> Iterator[Span]:
    if step_id in begun.state and end_s > begun.time_s:
        yield Span(step_id=step_id, state=begun.state[step_id], start_s=begun.time_s, end_s=end_s)

"""The differences of a branch from its run: an experiment on a stream. Plain values, without torch.

Worked example. A run completes S2 at frame 30, the reference at frame 24. This branch writes the reference up to
there, and continues freely, to show which of the later failures were consequences::

    Intervention(turns={24: ForcedTurn(updates=("S2->complete",))}, until=25)

Frames 0 to 23 are silent in this example, since they have no turn. With ``is_probed`` the outputs have the model's own
turns at these frames, with the forced history as their context.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import STATES
from stepscope.engine.records import FrameOutput, UserTurn, frame_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedTurn:
    """The turn of a frame that is written in place of the model's own; by default silence."""

    updates: tuple[str, ...] = ()
    """Updates in order, such as ``S2->complete``."""
    response: str | None = None
    """The message; None for silence."""
    has_own_updates: bool = False
    """Whether the updates are the model's own; ``updates`` is then empty."""
    has_own_response: bool = False
    """Whether the message is the model's own; ``response`` is then None."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a part that is forced and the model's own."""
        if (self.has_own_updates and self.updates) or (self.has_own_response and self.response is not None):
            raise ValueError("a part of a turn is either forced or the model's own")


SILENCE = ForcedTurn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """The differences of a branch from a run. All frames are indices; a frame comes at most once in each field."""

    turns: Mapping[int, ForcedTurn] = field(default_factory=dict)
    until: int = 0
    """Frames before this one that have no turn in ``turns`` are silent; later ones are the model's own."""
    is_probed: bool = False
    """Whether the outputs have the model's own turn at each forced frame. The context keeps the forced one, and so does
    the state that later frames meet."""
    states: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """States of steps that are set before a frame, by step id. The model reads them in its next prompt."""
    refreshes: frozenset[int] = frozenset()
    """Frames before which the context begins again with the prompt, which shows the present states."""
    pictures: Mapping[int, int] = field(default_factory=dict)
    """For a frame, the frame whose picture is shown in its place."""
    task: Task | None = None
    """The task, if not that of the run."""
    task_from: int = 0
    """The frame from which goal and steps of ``task`` hold; a later one than 0 begins a new context there."""
    questions: tuple[UserTurn, ...] = ()
    """Further user turns that the assistant must answer at their frame."""
    config: StreamConfig | None = None
    """The settings, if not those of the run."""
    config_from: int = 0
    """The frame from which ``config`` decides. It reads the whole context, in which the turns before are kept."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a negative frame or an unknown state."""
        frames = (*self.turns, *self.states, *self.refreshes, *self.pictures, *self.pictures.values())
        if min((self.until, self.task_from, self.config_from, *frames)) < 0:
            raise ValueError("a frame of an intervention must be at least 0")
        for state in self.states.values():
            for step_id, value in state.items():
                if value not in STATES:
                    raise ValueError(f"the state of {step_id} must be one of {', '.join(STATES)}; got {value!r}")

    @property
    def begins_context(self) -> frozenset[int]:
        """Frames before which the context begins again."""
        return self.refreshes | {self.task_from} - {0} if self.task is not None else self.refreshes - {0}

    def find_turn(self, frame: int) -> ForcedTurn | None:
        """Return the forced turn of a frame; None if the model writes its own."""
        return self.turns.get(frame, SILENCE if frame < self.until else None)

    def change_task(self, task: Task) -> Task:
        """Return the task of the branch of a run with this task, with the goal and steps of the first frame."""
        new = self.task or task
        if self.task_from:
            new = replace(task, user_turns=new.user_turns, questions=new.questions)
        return replace(new, questions=(*new.questions, *self.questions))

    @property
    def kept_until(self) -> int:
        """The frame before which turns stay as they are without the task and the settings that hold from it on."""
        return max(self.task_from if self.task else 0, self.config_from if self.config else 0)

    def before(self, frame: int, *, fps: float) -> "Intervention":
        """Return what differs before a frame; task and settings count that hold from an earlier one on."""
        return Intervention(
            turns={number: turn for number, turn in self.turns.items() if number < frame},
            until=min(self.until, frame),
            states={number: state for number, state in self.states.items() if number < frame},
            refreshes=frozenset(number for number in self.refreshes if number < frame),
            pictures={number: other for number, other in self.pictures.items() if number < frame},
            task=self.task if self.task_from < frame else None,
            task_from=self.task_from if self.task_from < frame else 0,
            questions=tuple(turn for turn in self.questions if frame_at(turn.time_s, fps) < frame),
            config=self.config if self.config_from < frame else None,
            config_from=self.config_from if self.config_from < frame else 0,
        )

    def join(self, other: "Intervention") -> "Intervention":
        """Return both as one; where they differ, ``other`` counts."""
        return replace(
            other,
            turns={**self.turns, **other.turns},
            until=max(self.until, other.until),
            states={**self.states, **other.states},
            refreshes=self.refreshes | other.refreshes,
            pictures={**self.pictures, **other.pictures},
            task=other.task or self.task,
            task_from=other.task_from if other.task else self.task_from,
            questions=(*self.questions, *other.questions),
            config=other.config or self.config,
            config_from=other.config_from if other.config else self.config_from,
        )


def force_outputs(outputs: Sequence[FrameOutput], *, until: int) -> Intervention:
    """Return the intervention that writes the turns of a run again before a frame."""
    turns = {
        output.frame_index: ForcedTurn(updates=output.updates, response=output.response)
        for output in outputs[:until]
        if output.updates or output.response is not None
    }
    return Intervention(turns=turns, until=until)

"""The task of a stream: the assistant's input apart from the frames."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.engine.io.arguments import check_list, check_type
from stepscope.engine.records import Step, UserTurn, frame_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task of a stream: all inputs except the frames."""

    goal: str = ""
    steps: tuple[Step, ...] = ()
    """The steps; none for a video without a task."""
    user_turns: tuple[UserTurn, ...] = ()
    """User turns; each is fed before the image of frame ``floor(time_s * fps)``."""
    questions: tuple[UserTurn, ...] = ()
    """User turns that the assistant must answer at their frame, also below the speak threshold."""
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """Initial states by step id; steps without an entry are not started."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a field of another type."""
        check_type("goal", self.goal, str, "text")
        check_list("steps", self.steps, Step, "a list of Step; parse_steps reads text")
        check_list("user_turns", self.user_turns, UserTurn, "a list of UserTurn")
        check_list("questions", self.questions, UserTurn, "a list of UserTurn")
        check_type("initial_state", self.initial_state, Mapping, "a dict of states by step id")

    @property
    def all_user_turns(self) -> tuple[UserTurn, ...]:
        """User turns and questions."""
        return (*self.user_turns, *self.questions)


def find_late_turns(task: Task, *, fps: float, num_frames: int) -> tuple[UserTurn, ...]:
    """Return the user turns and questions after the end of a video of ``num_frames`` frames, which are never fed."""
    return tuple(turn for turn in task.all_user_turns if frame_at(turn.time_s, fps) >= num_frames)

"""The commands of the player's script: its events by name, each with the record of arguments that it sends.

A handler that takes the record gets it read and checked (``widgets.wire``). The player's tab answers most of them, the
other tabs those of their lists; a published player answers some from files, by the same names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Final, Literal

from stepscope.app.chat.window import Question
from stepscope.app.controls.widgets import AT_ONCE, Arguments, wire
from stepscope.app.player.views import PlayerComponents, PlayerView


@dataclass(frozen=True, slots=True, kw_only=True)
class Against(Arguments):
    """Whether a run is scored against the corrected reference, and whose corrections a blind reviewer has."""

    corrected: bool = False
    reviewer: str = ""
    is_blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest(Against):
    """A figure of the run, and its look; see ``app.player.downloads``. The timeline comes as it is drawn."""

    chart: str = ""
    format: str
    width: str = ""
    theme: str = "light"
    svg: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest(Arguments):
    """The file of the run to save."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRequest(Arguments):
    """A frame of the run."""

    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRequest(Arguments):
    """A kind of failure, or with the ``field`` class one of first mistakes, to search for in a run."""

    kind: str
    field: str = "failure"
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesRequest(Arguments):
    """The ``part`` of the head whose menu is open, and the split and run in focus."""

    part: str
    split: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace(Arguments):
    """The video of a reviewer's queue after which the next one is opened."""

    video_id: str
    run: str = ""
    reviewer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus(Arguments):
    """What to open from the head of the page, at which second if it is known; or the parameters of a link."""

    split: str = ""
    run: str = ""
    video: str = ""
    at: float | None = None
    link: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabPlace(Arguments):
    """A tab of the page, and its view."""

    tab: str
    view: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInFocus(Arguments):
    """The run to show; the tab chooses one if it is empty."""

    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewsInFocus(RunInFocus):
    """The split and run with which Reviews opens, and the reviewer of this browser."""

    split: str = ""
    reviewer: str = ""
    is_blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair(Arguments):
    """The run to show in Batch, and the one beside it."""

    a: str
    b: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Arguments):
    """The next (1) or previous (-1) entry of a list."""

    by: Literal[1, -1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRequest(Arguments):
    """Both sliders on release, the number of the request, and whether a run is shown."""

    speak: float
    update: float
    ticket: int
    has_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRequest(Arguments):
    """The changes of a branch; those of the one below it, by default the displayed run; whether to make it again."""

    changes: str = ""
    beside: str | None = None
    is_new: bool = False


COMMANDS: Final[Mapping[str, type[Arguments]]] = {
    "against": Against,
    "ask_beside": Question,
    "ask_in_run": Question,
    "enter_batch": RunInFocus,
    "enter_reviews": ReviewsInFocus,
    "explain_frame": FrameRequest,
    "export_figure": FigureRequest,
    "export_run": FileRequest,
    "find_kind": KindRequest,
    "inspect_frame": FrameRequest,
    "list_choices": ChoicesRequest,
    "next_video": QueuePlace,
    "open_focus": Focus,
    "open_tabs": TabPlace,
    "publish_story": Arguments,
    "review_run": RunInFocus,
    "show_run": RunPair,
    "shown": Arguments,  # the element's ``thresholds()`` have changed
    "step_search": Step,
    "step_settle": Step,
    "step_videos": Step,
    "thresholds": ThresholdRequest,
    "what_if": BranchRequest,
}


def wire_command(player: Any, name: str, answer: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> Any:
    """Register what answers an event of the ``player``, and return it. Raises ``TypeError`` for another record."""
    kinds = [parameter.annotation for parameter in signature(answer).parameters.values()]
    if COMMANDS[name] not in (Arguments, *kinds):
        raise TypeError(f"{name} sends {COMMANDS[name].__name__}")
    return wire(getattr(player, name), answer, inputs, outputs, **(AT_ONCE | options))


@dataclass(frozen=True, kw_only=True)
class InPlayer:
    """How the events of a tab open a video in the player of their window, and how the tab answers its script."""

    view: PlayerComponents
    ends: Mapping[str, Any]
    """Arguments of events that exchange the video, such as the events to cancel."""

    @property
    def steps(self) -> dict[str, Any]:
        """Arguments of events that go on in a list: a key that is pressed while a moment opens counts after it."""
        return {**self.ends, "trigger_mode": "always_last"}

    def wire(self, event: Callable[..., Any], handler: Callable[..., PlayerView], *inputs: Any) -> Any:
        """Register a handler that takes the values of ``inputs``; return the event."""
        return wire(event, handler, list(inputs), self.view, **self.ends)

    def answer(self, name: str, handler: Callable[..., Any], inputs: Any, outputs: Any, **options: Any) -> Any:
        """Register what answers an event of the player's script; return the event."""
        return wire_command(self.view.player, name, handler, inputs, outputs, **options)

"""Where the player goes when it shows a run: the destination that a handler names, and what is found there.

A destination is given before the run is judged, such as its worst moment. The landing is found once its failures are
known: a time, and an event to select. The player's script only follows it.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from stepscope.app.core.run import Run
from stepscope.app.review_store.events import VideoEvents, failure_keys, reference_event
from stepscope.app.window.failures import find_low_texts
from stepscope.engine.records import frame_at
from stepscope.eval.annotations.corrections import TurnName
from stepscope.eval.metrics.failures import WORST_S, worst_frame
from stepscope.eval.metrics.matched_video import JudgedVideo


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPlace:
    """Place of a moment in the list through which N and P go."""

    of: Literal["search", "settle"]
    number: int
    """Counted from 1."""
    total: int
    query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the player shall go in a run; by default it stays."""

    at: float | Literal["first", "worst", "link", "first from start"] | None = None
    """Time in seconds; ``first`` failure; ``worst`` window, that with the most failures; ``link``, the moment of the
    address, which the player knows; ``first from start``, the first failure unless the user has left the start."""
    event: str | None = None
    """Key of the event to select there."""
    turn: TurnName | None = None
    """Reference turn to select there, with its failure if it has one."""
    selects_failure: bool = False
    """Whether the first failure from a time on is selected."""
    place: ListPlace | None = None
    """Place in a list, whose next moment N opens."""
    opens_review: bool = False
    """Whether it is opened to be reviewed: from the tab Reviews."""


STAY: Final = Destination()
START: Final = Destination(at=0.0)
TO_REVIEW: Final = Destination(at=0.0, opens_review=True)
FIRST: Final = Destination(at="first")
FIRST_FROM_START: Final = Destination(at="first from start")
WORST: Final = Destination(at="worst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where the player goes in a run that it shows."""

    time_s: float | None = None
    """None to stay."""
    event: str | None = None
    """Key of the event to select there; None for the event at the playhead."""
    opens_review: bool = False
    is_from_start: bool = False
    """Whether it is the first failure of the chosen kinds, and only if the user has not left the start."""
    place: ListPlace | None = None

    def pack(self) -> dict[str, Any]:
        """Return the landing for the player's script."""
        packed: dict[str, Any] = {"time": self.time_s, "event": self.event, "opens_review": self.opens_review}
        packed |= {"is_from_start": self.is_from_start}
        return packed | ({"place": asdict(self.place)} if self.place is not None else {})


STAYING: Final = Landing()


def find_landing(
    destination: Destination,
    run: Run,
    judged: JudgedVideo | None,
    events: VideoEvents,
    *,
    other: tuple[Run, JudgedVideo | None] | None = None,
) -> Landing:
    """Find a destination in a run.

    ``judged`` are the failures of the run, ``events`` its events; ``other`` is a second run of the video, which counts
    for the worst moment.
    """
    time_s: float | None = None
    event = destination.event
    match destination.at:
        case "worst":
            found = find_worst_moment(run, judged, events, other=other)
            time_s, event = found.time_s, found.event
        case "first":
            found = find_first_stop(run, judged, events)
            time_s, event = found.time_s or 0.0, found.event
        case "link" | "first from start" | None:
            pass
        case time_s:
            if destination.turn is not None:
                event = find_turn_event(judged, events, reference_event(run.clip.video_id, destination.turn).key)
            elif destination.selects_failure and judged is not None:
                event = _first_failure(judged, events, frame_at(time_s, run.config.fps), run.config.fps)
    return Landing(
        time_s=time_s,
        event=event,
        opens_review=destination.opens_review,
        is_from_start=destination.at == "first from start",
        place=destination.place,
    )


def find_worst_moment(
    run: Run,
    judged: JudgedVideo | None,
    events: VideoEvents,
    *,
    other: tuple[Run, JudgedVideo | None] | None = None,
) -> Landing:
    """Return the start of the window with the most failures, and its first failure of ``run``.

    Without failures it is the first text of low similarity. ``judged`` are the failures of ``run``, ``events`` its
    events. With ``other``, a second run of the video, the failures of both are counted.
    """
    beside, verdicts = other if other is not None else (None, None)
    worst = worst_frame([found for found in (judged, verdicts) if found], fps=run.config.fps)
    if worst is None:
        return find_first_stop(run, judged, events)
    longest = max(run.outputs, beside.outputs if beside is not None else (), key=len)
    event = None if judged is None else _first_failure(judged, events, worst, run.config.fps)
    return Landing(time_s=longest[worst].time_s, event=event)


def find_first_stop(run: Run, judged: JudgedVideo | None, events: VideoEvents) -> Landing:
    """Return the first failure of ``run``, or else its first text of low similarity."""
    if judged is None:
        return STAYING
    if judged.failures:
        time_s = run.outputs[judged.failures[0].frame_index].time_s
        return Landing(time_s=time_s, event=failure_keys(judged, events)[0])
    low = find_low_texts(judged)
    if not low:
        return STAYING
    time_s = run.outputs[judged.turns[low[0]].frame_index].time_s
    return Landing(time_s=time_s, event=events.written[low[0]].key)


def find_turn_event(judged: JudgedVideo | None, events: VideoEvents, reference: str) -> str:
    """Return the key of the failure of a reference turn, given as the key of its event; without one, that key."""
    failures = zip(judged.failures, failure_keys(judged, events), strict=True) if judged is not None else ()
    turns = ((failure.reference, key) for failure, key in failures if failure.reference is not None)
    return next((key for turn, key in turns if events.references[turn].key == reference), reference)


def _first_failure(judged: JudgedVideo, events: VideoEvents, frame: int, fps: float) -> str | None:
    """Return the key of the first failure in the window that begins at ``frame``; None if there is none."""
    keys = failure_keys(judged, events)
    starts = (failure.frame_index for failure in judged.failures)
    return next((key for start, key in zip(starts, keys, strict=True) if frame <= start < frame + WORST_S * fps), None)

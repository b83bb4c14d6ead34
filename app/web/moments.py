"""The moment at which the player opens a run."""

from dataclasses import dataclass

from stepscope.app.core.run import Run
from stepscope.app.reviews.events import VideoEvents, failure_keys
from stepscope.eval.metrics.failures import WORST_S, worst_frame
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of a run; without a time, the run has no failures."""

    time_s: float | None = None
    event: str | None = None
    """Key of the event to select; None for the event at the playhead."""

    @property
    def words(self) -> str:
        """A sentence about the moment."""
        if self.time_s is None:
            return "It has no failures."
        return "This is its worst moment; press N for the next failure."


def find_worst_moment(
    run: Run,
    judged: JudgedVideo | None,
    events: VideoEvents,
    *,
    other: tuple[Run, JudgedVideo | None] | None = None,
) -> Moment:
    """Return the start of the window with the most failures, and its first failure of ``run``.

    ``judged`` are the failures of ``run`` and ``events`` its events. With ``other``, a second run of the video, the
    failures of both are counted.
    """
    beside, verdicts = other if other is not None else (None, None)
    worst = worst_frame([found for found in (judged, verdicts) if found], fps=run.config.fps)
    if worst is None:
        return Moment()
    longest = max(run.outputs, beside.outputs if beside is not None else (), key=len)
    event = None if judged is None else _first_failure(judged, events, worst, run.config.fps)
    return Moment(time_s=longest[worst].time_s, event=event)


def find_first_failure(run: Run, judged: JudgedVideo | None, events: VideoEvents) -> Moment:
    """Return the first failure of ``run``; ``judged`` are its failures and ``events`` its events."""
    if judged is None or not judged.failures:
        return Moment()
    time_s = run.outputs[judged.failures[0].frame_index].time_s
    return Moment(time_s=time_s, event=failure_keys(judged, events)[0])


def find_turn_event(judged: JudgedVideo | None, events: VideoEvents, reference: str) -> str:
    """Return the key of the failure of a reference turn, given as the key of its event; without one, that key."""
    failures = zip(judged.failures, failure_keys(judged, events), strict=True) if judged is not None else ()
    of_turn = (key for failure, key in failures if _is_of(failure, events, reference))
    return next(of_turn, reference)


def _is_of(failure: Failure, events: VideoEvents, reference: str) -> bool:
    return failure.reference is not None and events.references[failure.reference].key == reference


def _first_failure(judged: JudgedVideo, events: VideoEvents, frame: int, fps: float) -> str | None:
    """Return the key of the first failure in the worst window, which begins at ``frame``; None if there is none."""
    keys = failure_keys(judged, events)
    starts = (failure.frame_index for failure in judged.failures)
    return next((key for start, key in zip(starts, keys, strict=True) if frame <= start < frame + WORST_S * fps), None)

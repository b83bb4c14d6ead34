"""The events of a video: everything that can get a verdict, with keys that survive a re-run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from stepscope.app.review_store.actions import Event
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrections import TurnName, name_turns
from stepscope.eval.data.samples import ROLE_ORDER, Role, Sample
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoEvents:
    """The events of one video."""

    written: tuple[Event, ...]
    """Texts of the model, parallel to ``JudgedVideo.turns``: by frame, updates before the response."""
    references: tuple[Event, ...]
    """Reference turns, parallel to their names."""
    states: tuple[Event, ...]
    """Times with a wrong state, in the order of ``JudgedVideo.failures``."""

    @property
    def ordered(self) -> tuple[Event, ...]:
        """All events in the order of the transcript and of the failures.

        They are sorted by time; at one time updates, user turns, responses, states, and the model before the reference.
        """
        events = (*self.written, *self.references, *self.states)
        return tuple(sorted(events, key=lambda event: (event.time_s, event.kind == "state", ROLE_ORDER[event.role])))


def name_events(
    video_id: str,
    *,
    outputs: Sequence[FrameOutput] = (),
    references: Iterable[TurnName] = (),
    judged: JudgedVideo | None = None,
) -> VideoEvents:
    """Return the events of one video, without ``outputs`` of a run those of its reference alone.

    ``references`` are named by ``eval.annotations.corrections.name_turns``. The failures of the analysed run ``judged``
    give the times with a wrong state; None lists no states.
    """
    event = partial(Event, video_id=video_id)
    times = {output.frame_index: output.time_s for output in outputs}
    written = []
    for output in outputs:
        at = output.time_s
        written += [event(kind="update", role="update", time_s=at, text=text) for text in output.updates]
        if output.response:
            written.append(event(kind="generated", role="assistant", time_s=at, text=output.response))
    states = [
        event(kind="state", role="update", time_s=times[failure.frame_index], text=", ".join(failure.step_ids))
        for failure in (judged.failures if judged else ())
        if failure.kind == "wrong state"
    ]
    return VideoEvents(
        written=_number(written),
        references=tuple(reference_event(video_id, name) for name in references),
        states=_number(states),
    )


def match_events(events: VideoEvents, judged: JudgedVideo) -> Mapping[str, str]:
    """Return the matched pairs: the key of each text of the model to the key of its reference turn."""
    return {
        event.key: events.references[turn.reference].key
        for event, turn in zip(events.written, judged.turns, strict=True)
        if turn.outcome == "matched" and turn.reference is not None
    }


def failure_keys(judged: JudgedVideo, events: VideoEvents) -> list[str]:
    """Return the key of the event of each failure, in order."""
    states = iter(events.states)

    def event(failure: Failure) -> Event:
        if failure.turn is not None:
            return events.written[failure.turn]
        return next(states) if failure.reference is None else events.references[failure.reference]

    return [event(failure).key for failure in judged.failures]


def reference_event(video_id: str, name: TurnName) -> Event:
    """Return the event of a reference turn, or of a turn that a correction added."""
    return Event(video_id=video_id, kind="reference", **asdict(name))


def find_moment_event(sample: Sample | None, moment: Any) -> Event | None:
    """Return the event of a row of ``moments.csv``, or None if it is no event."""
    event = partial(Event, video_id=str(moment.video_id), time_s=float(moment.time_s))
    if moment.what == "state":
        return event(kind="state", role="update", text=moment.step.replace(" ", ", "))
    if moment.what not in ("message", "update") or sample is None:
        return None
    role: Role = "update" if moment.what == "update" else "assistant"
    if moment.text:
        return event(kind="update" if role == "update" else "generated", role=role, text=moment.text)
    turns = [name for name in name_turns(sample.turns) if (name.role, name.text) == (role, moment.reference)]
    nearest = min(turns, key=lambda name: abs(name.time_s - moment.time_s), default=None)
    return None if nearest is None else reference_event(sample.video_id, nearest)


def _number(events: Iterable[Event]) -> tuple[Event, ...]:
    """Number events that are equal otherwise, from 0."""
    seen = Counter[str]()
    numbered = []
    for event in events:
        numbered.append(replace(event, number=seen[event.key]))
        seen[event.key] += 1
    return tuple(numbered)

"""The events of a video: everything that can get a verdict, with keys that survive a re-run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from app.reviews.actions import Event
from engine.records import FrameOutput
from eval.annotations.corrections import TurnName
from eval.metrics.failures import JudgedVideo

_ORDER = {"reference": 0, "update": 1, "generated": 2, "state": 3}


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
        """All events by time; ties in the order references, updates, responses, states."""
        events = (*self.references, *self.written, *self.states)
        return tuple(sorted(events, key=lambda event: (event.time_s, _ORDER[event.kind])))


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


def reference_event(video_id: str, name: TurnName) -> Event:
    """Return the event of a reference turn, or of a turn that a correction added."""
    return Event(video_id=video_id, kind="reference", **asdict(name))


def _number(events: Iterable[Event]) -> tuple[Event, ...]:
    """Number events that are equal otherwise, from 0."""
    seen = Counter[str]()
    numbered = []
    for event in events:
        numbered.append(replace(event, number=seen[event.key]))
        seen[event.key] += 1
    return tuple(numbered)

"""Actions and events: their checks, names and order."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from app.reviews.actions import MAX_REVIEWER_CHARS, Action, Event, check_reviewer
from app.reviews.events import VideoEvents, name_events, reference_event
from engine.records import FrameOutput
from eval.annotations.corrections import Correction, TurnName, name_turns
from eval.data.samples import Turn
from eval.metrics.failures import Failure, JudgedVideo
from tests.support.strategies import BOAT

HULL, SAIL, FLAG = (
    Event(video_id="boat", kind="generated", role="assistant", time_s=time_s, text=text)
    for time_s, text in ((1.0, "Hull."), (2.0, "Sail."), (3.0, "Flag."))
)


NAME = TurnName(role="assistant", time_s=1.0, text="Go.")


def frame(
    index: int, response: str | None = None, updates: tuple[str, ...] = (), *, late_s: float = 0.0
) -> FrameOutput:
    return FrameOutput(
        frame_index=index,
        time_s=index / 2 + late_s,
        speak_prob=0.9,
        update_prob=0.1,
        response=response,
        updates=updates,
        dst_state={},
        cache_tokens=9,
        refreshed=False,
        latency_ms=1.0,
    )


def test_events_are_named_in_the_order_of_the_page_and_found_again_after_a_re_run() -> None:
    outputs = [frame(0, "Go."), frame(1), frame(2, "Go on.", ("S1->start", "S1->start"))]
    failures = (
        Failure(kind="missed", frame_index=1, end_frame=2, reference=0),
        Failure(kind="wrong state", frame_index=1, end_frame=3, step_ids=("S1", "S2")),
    )
    judged = JudgedVideo(turns=(), failures=failures)
    sample = replace(BOAT, turns=(Turn(time_s=1.0, role="user", text="Next?"),) * 2)
    events = name_events("boat", outputs=outputs, references=name_turns(sample.turns), judged=judged)
    assert [(event.kind, event.time_s, event.text, event.number) for event in events.written] == [
        ("generated", 0.0, "Go.", 0),
        ("update", 1.0, "S1->start", 0),
        ("update", 1.0, "S1->start", 1),
        ("generated", 1.0, "Go on.", 0),
    ]
    assert [(event.kind, event.role, event.number) for event in events.references] == [
        ("reference", "user", 0),
        ("reference", "user", 1),
    ]
    assert [(event.kind, event.time_s, event.text) for event in events.states] == [("state", 0.5, "S1, S2")]
    kinds = ["generated", "state", "reference", "reference", "update", "update", "generated"]
    assert [event.kind for event in events.ordered] == kinds
    assert len({event.key for event in events.ordered}) == 7
    again = [frame(0), frame(1, "New."), frame(2, "Go on.", late_s=0.0001)]
    assert name_events("boat", outputs=again).written[-1].key == events.written[-1].key
    assert name_events("boat") == VideoEvents(written=(), references=(), states=())


def test_a_reference_event_has_all_that_its_turn_is_known_by() -> None:
    event = reference_event("boat", NAME)
    assert (event.role, event.time_s, event.text, event.number) == (NAME.role, NAME.time_s, NAME.text, NAME.number)


@pytest.mark.parametrize("name", ["ann", "Ann O'Neil", "=cmd()", "<script>", "\u05d0\u05d1", " ann "])
def test_a_printable_name_is_a_reviewers_name(name: str) -> None:
    assert check_reviewer(name) == name.strip()


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "\u202eevil", "\ud83d", "x" * (MAX_REVIEWER_CHARS + 1)])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 80 printable characters"):
        check_reviewer(name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kind": "guess"}, "must be one of verdict, tags"),
        ({"kind": "verdict", "verdict": "correct"}, "kind verdict needs its event"),
        ({"kind": "correction"}, "kind correction needs its correction"),
        ({"kind": "undo"}, "kind undo needs its target"),
        ({"kind": "verdict", "event": HULL, "verdict": "fine"}, "must be one of correct, false alarm"),
        (
            {"kind": "verdict", "event": replace(HULL, video_id="car")},
            "the event is of video car, the action of video boat",
        ),
        (
            {"kind": "correction", "correction": Correction(reviewer="bob", kind="delete", turn=NAME)},
            "ann cannot correct on behalf of bob",
        ),
        ({"kind": "undo", "target": "x", "reviewer": " ann"}, "has no leading or trailing blanks"),
        ({"kind": "undo", "target": "x", "video_id": "a\0"}, "has characters that a database cannot store"),
        ({"kind": "undo", "target": "x", "at": datetime(2026, 1, 1)}, "must have a UTC offset"),
    ],
)
def test_an_action_that_contradicts_itself_is_refused(content: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Action(**{"reviewer": "ann", "video_id": "boat", **content})

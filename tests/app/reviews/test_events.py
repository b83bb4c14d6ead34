from dataclasses import replace

from stepscope.app.reviews.events import VideoEvents, name_events, reference_event
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrections import TurnName, name_turns
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo
from tests.support.data.records import make_output
from tests.support.data.strategies import BOAT

NAME = TurnName(role="assistant", time_s=1.0, text="Go.")


def frame(
    index: int, response: str | None = None, updates: tuple[str, ...] = (), *, late_s: float = 0.0
) -> FrameOutput:
    return make_output(index, fps=2 + late_s, speak_prob=0.9, response=response, updates=updates)


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
    kinds = ["generated", "state", "update", "update", "reference", "reference", "generated"]
    assert [event.kind for event in events.ordered] == kinds
    assert len({event.key for event in events.ordered}) == 7
    again = [frame(0), frame(1, "New."), frame(2, "Go on.", late_s=0.0001)]
    assert name_events("boat", outputs=again).written[-1].key == events.written[-1].key
    assert name_events("boat") == VideoEvents(written=(), references=(), states=())


def test_a_reference_event_has_all_that_its_turn_is_known_by() -> None:
    event = reference_event("boat", NAME)
    assert (event.role, event.time_s, event.text, event.number) == (NAME.role, NAME.time_s, NAME.text, NAME.number)

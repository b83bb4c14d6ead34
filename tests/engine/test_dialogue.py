from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.formatting import format_clock
from stepscope.engine.config import IllegalUpdates
from stepscope.engine.dialogue import (
    Update,
    apply_update,
    fill_legality,
    format_user_turn,
    initial_state,
    parse_steps,
    parse_time,
    parse_update,
    parse_user_turn,
)
from stepscope.engine.io.files import strip_text
from stepscope.engine.records import Step, UserTurn
from tests.support.streams.controlled import Turns, stream
from tests.support.streams.fakes import STEPS

STATE = {"S1": "in_progress", "S2": "not_started"}


def test_spaces_around_the_arrow_are_tolerated() -> None:
    assert parse_update(" S1 -> start ") == Update(step_id="S1", transition="start")


@pytest.mark.parametrize("text", ["", "->start", "S1->begin"])
def test_anything_else_is_malformed_and_changes_nothing(text: str) -> None:
    assert parse_update(text) is None
    change = apply_update(STATE, text)
    assert (change.state, change.legality) == (STATE, "malformed")


def test_a_legal_update_gives_a_new_state() -> None:
    change = apply_update(STATE, "S1->complete")
    assert (change.state, change.legality) == ({"S1": "completed", "S2": "not_started"}, "legal")
    assert STATE == {"S1": "in_progress", "S2": "not_started"}


@pytest.mark.parametrize("text", ["S2->complete", "S1->start"])  # skips; repeats
def test_an_illegal_update_is_applied_or_refused_as_set(text: str) -> None:
    applied, refused = apply_update(STATE, text), apply_update(STATE, text, illegal="refuse")
    assert applied.legality == refused.legality == "illegal"
    assert applied.state == {**STATE, text[:2]: "completed" if "complete" in text else "in_progress"}
    assert refused.state == STATE


def test_an_unknown_step_is_illegal_and_never_enters_the_state() -> None:
    change = apply_update(STATE, "S9->start")
    assert (change.state, change.legality) == (STATE, "illegal")


@pytest.mark.parametrize("illegal", ["apply", "refuse"])
def test_the_legality_that_a_stream_stores_is_that_of_its_updates_again(illegal: IllegalUpdates) -> None:
    turns: Turns = {1: (("S1->complete", "S1->start"), "Go."), 3: (("S1->complete", "S9->start", "S1"), None)}
    outputs, _ = stream(turns, num_frames=5, illegal_updates=illegal)
    stored = {output.frame_index: output.legality for output in outputs}
    # the skip to complete counts or not, so the start goes back or is legal; complete then follows the start
    first = ("illegal", "legal" if illegal == "refuse" else "illegal")
    assert stored == {0: (), 1: first, 2: (), 3: ("legal", "illegal", "malformed"), 4: ()}
    earlier = [replace(output, legality=None) for output in outputs]
    assert fill_legality(earlier, initial_state(STEPS), illegal=illegal) == tuple(outputs)


def test_steps_that_are_not_given_have_not_started() -> None:
    assert initial_state(STEPS, {"S2": "completed"}) == {"S1": "not_started", "S2": "completed"}


def test_an_unknown_state_and_two_steps_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="not one of not_started, in_progress, completed"):
        initial_state(STEPS, {"S1": "done"})
    with pytest.raises(ValueError, match="step ids must differ"):
        initial_state((STEPS[0], STEPS[0]))


def test_steps_are_read_a_line_each_with_or_without_ids() -> None:
    steps = parse_steps("S2: attach the wheel\n\n- S1. put on the roof\n  paint it: red\n")
    assert steps == (
        Step(id="S2", name="attach the wheel"),
        Step(id="S1", name="put on the roof"),
        Step(id="S3", name="paint it: red"),
    )


@pytest.mark.parametrize(
    ("text", "time_s", "words"),
    [
        ("12.5: What is next: this?", 12.5, "What is next: this?"),
        ("12,5 What is next?", 12.5, "What is next?"),
        ("1:02:03.5: go", 3723.5, "go"),
        ("5: 30 screws are left", 5.0, "30 screws are left"),
        ("1:30 15 screws are left", 90.0, "15 screws are left"),
    ],
)
def test_a_user_turn_is_read_from_its_time_and_words(text: str, time_s: float, words: str) -> None:
    turn = parse_user_turn(text)
    assert (turn.time_s, turn.text) == (time_s, words)


@pytest.mark.parametrize("text", ["What is next?", "-1: go", "1:30", "1:75 go"])
def test_a_user_turn_without_time_or_words_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TIME: WORDS"):
        parse_user_turn(text)


@given(st.floats(0, 1e9), st.text().map(strip_text).filter(bool))
def test_a_user_turn_that_is_written_is_read_again(time_s: float, words: str) -> None:
    turn = UserTurn(time_s=time_s, text=words)
    assert parse_user_turn(format_user_turn(turn)) == turn


@given(st.integers(0, 10**6))
def test_a_time_as_the_page_shows_it_is_read(tenths: int) -> None:
    assert parse_time(format_clock(tenths / 10, digits=1)) == tenths / 10


@pytest.mark.parametrize("text", ["", "1e3", "1:60"])
def test_a_time_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="m:ss"):
        parse_time(text)

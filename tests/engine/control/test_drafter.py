"""Drafted tokens of updates and responses."""

from engine.control.drafter import Drafter, ResponseMemory
from engine.records import Step
from tests.support.fakes import EOS, CharacterCodec

CODEC = CharacterCodec()
STEPS = (
    Step(id="S1", name="attach the wheel"),
    Step(id="S2", name="put on the roof"),
    Step(id="S3", name="load the block"),
)
BEGUN = {"S1": "completed", "S2": "in_progress", "S3": "not_started"}


def drafter(
    memory: ResponseMemory | None = None, *, goal: str = "build the toy truck", max_tokens: int = 99
) -> Drafter:
    return Drafter(
        CODEC.words, eos_id=EOS, goal=goal, steps=STEPS, max_tokens=max_tokens, memory=memory or ResponseMemory()
    )


def text(ids: tuple[int, ...]) -> str:
    return "".join("/" if token == EOS else CODEC.text([token]) for token in ids)


def test_a_step_in_progress_is_guessed_to_be_completed_before_another_starts() -> None:
    assert text(drafter().draft_update((), state=BEGUN)) == "S2->complete/"
    assert text(drafter().draft_update((), state={**BEGUN, "S2": "completed"})) == "S3->start/"


def test_what_is_written_decides_between_the_legal_updates() -> None:
    assert text(drafter().draft_update(CODEC.words("S3"), state=BEGUN)) == "->start/"
    assert drafter().draft_update(CODEC.words("S9"), state=BEGUN) == ()


def test_a_sentence_is_said_again_of_the_step_that_comes_now() -> None:
    one = drafter()
    one.record_response("Good. Now attach the wheel.", event="complete", state=dict.fromkeys(BEGUN, "not_started"))
    assert text(one.draft_response((), event="complete", state=BEGUN)) == "Good. Now load the block./"


def test_a_part_of_a_name_and_the_goal_are_exchanged_too() -> None:
    memory = ResponseMemory()
    one = drafter(memory)
    one.record_response("Careful with the roof of the toy truck.", event="frame", state=BEGUN)
    other = drafter(memory, goal="make the long boat")
    begun = {**BEGUN, "S2": "completed", "S3": "in_progress"}
    assert text(other.draft_response((), event="frame", state=begun)) == "Careful with the block of the long boat./"


def test_a_sentence_whose_step_is_missing_now_is_not_guessed() -> None:
    one = drafter()
    one.record_response("Now load the block.", event="complete", state=BEGUN)
    assert one.draft_response((), event="complete", state=dict.fromkeys(BEGUN, "completed")) == ()


def test_sentences_that_answered_something_else_are_tried_only_once_begun() -> None:
    one = drafter()
    one.record_response("Two steps are left.", event="user", state=BEGUN)
    assert one.draft_response((), event="frame", state=BEGUN) == ()
    assert text(one.draft_response(CODEC.words("Two s"), event="frame", state=BEGUN)) == "teps are left./"


def test_the_longest_match_in_goal_and_steps_is_followed() -> None:
    # "ck" ends the goal's "truck" and lies in "block"; " bl" is in "block" alone
    assert text(drafter().draft_response(CODEC.words("So the bl"), event="frame", state=BEGUN)) == "ock"
    assert drafter().draft_response(CODEC.words("zzz"), event="frame", state=BEGUN) == ()


def test_no_draft_is_longer_than_set() -> None:
    assert text(drafter(max_tokens=4).draft_update((), state=BEGUN)) == "S2->"


def test_candidates_are_tried_first() -> None:
    prior_ids = CODEC.words("S3->start")
    assert text(drafter().draft_update((), state=BEGUN, candidates=[prior_ids])) == "S3->start/"
    assert (
        text(drafter().draft_response(CODEC.words("H"), event="frame", state=BEGUN, candidates=[CODEC.words("Hm.")]))
        == "m./"
    )


def test_an_update_is_guessed_to_be_followed_as_the_last_of_its_kind_was() -> None:
    memory = ResponseMemory()
    assert not memory.is_followed("S1->complete")
    memory.record_update("S1->complete", is_followed=True)
    assert memory.is_followed("S2->complete")
    assert not memory.is_followed("S2->start")


def test_braces_in_a_sentence_are_no_slots() -> None:
    one = drafter()
    one.record_response("Look {next:0} here", event="frame", state=BEGUN)
    assert text(one.draft_response((), event="frame", state=BEGUN)) == "Look next:0 here/"


def test_old_sentences_are_forgotten() -> None:
    memory = ResponseMemory()
    for number in range(200):
        memory.add(f"Sentence {number}.", event="frame")
    assert len(list(memory.patterns("frame"))) == 64

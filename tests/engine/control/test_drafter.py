"""Drafted tokens of updates and responses."""

from stepscope.engine.control.drafter import Drafter, ResponseMemory
from stepscope.engine.records import Step
from tests.support.streams.fakes import EOS, CharacterCodec

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


def test_the_draft_completes_a_step_in_progress_before_the_next_starts() -> None:
    assert text(drafter().draft_update((), state=BEGUN)) == "S2->complete/"
    assert text(drafter().draft_update((), state={**BEGUN, "S2": "completed"})) == "S3->start/"


def test_written_tokens_select_among_the_legal_updates() -> None:
    assert text(drafter().draft_update(CODEC.words("S3"), state=BEGUN)) == "->start/"
    assert drafter().draft_update(CODEC.words("S9"), state=BEGUN) == ()


def test_a_sentence_is_drafted_again_with_the_present_step() -> None:
    first = drafter()
    first.record_response("Good. Now attach the wheel.", event="complete", state=dict.fromkeys(BEGUN, "not_started"))
    assert text(first.draft_response((), event="complete", state=BEGUN)) == "Good. Now load the block./"


def test_a_part_of_a_name_and_the_goal_are_replaced_too() -> None:
    memory = ResponseMemory()
    first = drafter(memory)
    first.record_response("Careful with the roof of the toy truck.", event="frame", state=BEGUN)
    second = drafter(memory, goal="make the long boat")
    begun = {**BEGUN, "S2": "completed", "S3": "in_progress"}
    assert text(second.draft_response((), event="frame", state=begun)) == "Careful with the block of the long boat./"


def test_a_sentence_without_its_step_is_not_drafted() -> None:
    first = drafter()
    first.record_response("Now load the block.", event="complete", state=BEGUN)
    assert first.draft_response((), event="complete", state=dict.fromkeys(BEGUN, "completed")) == ()


def test_answers_to_different_events_are_tried_only_after_the_first_token() -> None:
    first = drafter()
    first.record_response("Two steps are left.", event="user", state=BEGUN)
    assert first.draft_response((), event="frame", state=BEGUN) == ()
    assert text(first.draft_response(CODEC.words("Two s"), event="frame", state=BEGUN)) == "teps are left./"


def test_the_longest_match_in_goal_and_steps_is_followed() -> None:
    # "ck" ends "truck" in the goal and occurs in "block"; " bl" occurs only in "block"
    assert text(drafter().draft_response(CODEC.words("So the bl"), event="frame", state=BEGUN)) == "ock"
    assert drafter().draft_response(CODEC.words("zzz"), event="frame", state=BEGUN) == ()


def test_no_draft_exceeds_max_tokens() -> None:
    assert text(drafter(max_tokens=4).draft_update((), state=BEGUN)) == "S2->"


def test_candidates_are_tried_first() -> None:
    prior_ids = CODEC.words("S3->start")
    assert text(drafter().draft_update((), state=BEGUN, candidates=[prior_ids])) == "S3->start/"
    assert (
        text(drafter().draft_response(CODEC.words("H"), event="frame", state=BEGUN, candidates=[CODEC.words("Hm.")]))
        == "m./"
    )


def test_an_update_is_followed_if_the_last_of_its_kind_was() -> None:
    memory = ResponseMemory()
    assert not memory.is_followed("S1->complete")
    memory.record_update("S1->complete", is_followed=True)
    assert memory.is_followed("S2->complete")
    assert not memory.is_followed("S2->start")


def test_braces_in_a_sentence_are_no_placeholders() -> None:
    first = drafter()
    first.record_response("Look {next:0} here", event="frame", state=BEGUN)
    assert text(first.draft_response((), event="frame", state=BEGUN)) == "Look next:0 here/"


def test_old_sentences_are_forgotten() -> None:
    memory = ResponseMemory()
    for number in range(200):
        memory.add(f"Sentence {number}.", event="frame")
    assert len(list(memory.patterns("frame"))) == 64

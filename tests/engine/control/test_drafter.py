"""Drafts: what is guessed, and that a guess is never more than that."""

from engine.control.drafter import Drafter, Sayings
from engine.records import Step
from tests.support.fakes import EOS, CharacterScript

SCRIPT = CharacterScript()
STEPS = (
    Step(id="S1", name="attach the wheel"),
    Step(id="S2", name="put on the roof"),
    Step(id="S3", name="load the block"),
)
BEGUN = {"S1": "completed", "S2": "in_progress", "S3": "not_started"}


def drafter(sayings: Sayings | None = None, *, goal: str = "build the toy truck", most: int = 99) -> Drafter:
    return Drafter(SCRIPT.words, eos_id=EOS, goal=goal, steps=STEPS, most=most, sayings=sayings or Sayings())


def text(ids: tuple[int, ...]) -> str:
    return "".join("/" if token == EOS else SCRIPT.text([token]) for token in ids)


def test_a_step_in_progress_is_guessed_to_be_completed_before_another_starts() -> None:
    assert text(drafter().update((), state=BEGUN)) == "S2->complete/"
    assert text(drafter().update((), state={**BEGUN, "S2": "completed"})) == "S3->start/"


def test_what_is_written_decides_between_the_legal_updates() -> None:
    assert text(drafter().update(SCRIPT.words("S3"), state=BEGUN)) == "->start/"
    assert drafter().update(SCRIPT.words("S9"), state=BEGUN) == ()


def test_a_sentence_is_said_again_of_the_step_that_comes_now() -> None:
    one = drafter()
    one.said("Good. Now attach the wheel.", event="complete", state=dict.fromkeys(BEGUN, "not_started"))
    assert text(one.response((), event="complete", state=BEGUN)) == "Good. Now load the block./"


def test_a_part_of_a_name_and_the_goal_are_exchanged_too() -> None:
    sayings = Sayings()
    one = drafter(sayings)
    one.said("Careful with the roof of the toy truck.", event="seen", state=BEGUN)
    other = drafter(sayings, goal="make the long boat")
    begun = {**BEGUN, "S2": "completed", "S3": "in_progress"}
    assert text(other.response((), event="seen", state=begun)) == "Careful with the block of the long boat./"


def test_a_sentence_whose_step_is_missing_now_is_not_guessed() -> None:
    one = drafter()
    one.said("Now load the block.", event="complete", state=BEGUN)
    assert one.response((), event="complete", state=dict.fromkeys(BEGUN, "completed")) == ()


def test_sentences_that_answered_something_else_are_tried_only_once_begun() -> None:
    one = drafter()
    one.said("Two steps are left.", event="asked", state=BEGUN)
    assert one.response((), event="seen", state=BEGUN) == ()
    assert text(one.response(SCRIPT.words("Two s"), event="seen", state=BEGUN)) == "teps are left./"


def test_the_longest_match_in_goal_and_steps_is_followed() -> None:
    # "ck" ends the goal's "truck" and lies in "block"; " bl" is in "block" alone
    assert text(drafter().response(SCRIPT.words("So the bl"), event="seen", state=BEGUN)) == "ock"
    assert drafter().response(SCRIPT.words("zzz"), event="seen", state=BEGUN) == ()


def test_no_draft_is_longer_than_set() -> None:
    assert text(drafter(most=4).update((), state=BEGUN)) == "S2->"


def test_an_earlier_run_is_believed_first() -> None:
    told = SCRIPT.words("S3->start")
    assert text(drafter().update((), state=BEGUN, before=[told])) == "S3->start/"
    assert text(drafter().response(SCRIPT.words("H"), event="seen", state=BEGUN, before=[SCRIPT.words("Hm.")])) == "m./"


def test_an_update_is_guessed_to_be_followed_as_the_last_of_its_kind_was() -> None:
    sayings = Sayings()
    assert not sayings.is_followed("S1->complete")
    sayings.updated("S1->complete", is_followed=True)
    assert sayings.is_followed("S2->complete")
    assert not sayings.is_followed("S2->start")


def test_braces_in_a_sentence_are_no_slots() -> None:
    one = drafter()
    one.said("Look {next:0} here", event="seen", state=BEGUN)
    assert text(one.response((), event="seen", state=BEGUN)) == "Look next:0 here/"


def test_old_sentences_are_forgotten() -> None:
    sayings = Sayings()
    for number in range(200):
        sayings.add(f"Sentence {number}.", event="seen")
    assert len(list(sayings.patterns("seen"))) == 64

"""Drafted tokens of updates and responses."""

from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.drafter import Drafter, ResponseMemory
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.static import pick_bucket
from stepscope.engine.records import Step, UserTurn
from tests.support.streams.controlled import Turns, run_again, stream
from tests.support.streams.fakes import EOS, CharacterCodec, ScriptedRunner, tiny_model

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


TASK = Task(goal="g", steps=STEPS)
LIMITS = {"max_seq_len": 300, "reserved_seq_len": 110}


@pytest.mark.parametrize(
    "written",
    [((), "x" * 500), (("S1->start" + " " * 500,), None), (("S1->start", "S1->complete") * 20, None)],
    ids=["response", "update", "updates"],
)
def test_prior_texts_above_the_limits_are_not_drafted(written: tuple[tuple[str, ...], str | None]) -> None:
    turns: Turns = {20: written, 40: ((), "Go.")}
    allowed: dict[str, Any] = {"max_new_tokens": 600, "max_update_tokens": 600, "max_updates_per_frame": 300}
    outputs, _ = stream(turns, num_frames=60, **allowed, max_seq_len=200_000, reserved_seq_len=190_000)
    assert (outputs[20].updates, outputs[20].response) == written
    runner, fresh = (ScriptedRunner(turns=turns, num_frames=60) for _ in range(2))
    found, _ = run_again(runner, PriorRun(outputs=tuple(outputs)), speak=0.5, update=0.5, task=TASK, **LIMITS)
    wanted, _ = run_again(fresh, PriorRun(outputs=()), speak=0.5, update=0.5, task=TASK, **LIMITS)
    assert found == wanted
    assert runner.max_length <= LIMITS["max_seq_len"]


def test_no_pass_leaves_its_slot() -> None:
    pool = KVCachePool(tiny_model(), num_slots=2, capacity=64)
    cache = SlotKVCache(pool, 0)
    cache.advance(60)
    assert pick_bucket([4], [cache], needs_tokens=False, min_context=64, max_tokens=512) is not None
    with pytest.raises(AssertionError, match="leaves its slot"):
        pick_bucket([5], [cache], needs_tokens=False, min_context=64, max_tokens=512)


@pytest.mark.parametrize("policy", ["silent-token", "not-talk"])
def test_the_token_policies_write_no_updates_at_any_threshold(policy: str) -> None:
    """Their probability of an update is 0.0, and "not-talk" triggers at equality."""
    turns: Turns = {1: (("S1->start",), "Go.")}
    config = StreamConfig(decision_policy=policy, update_threshold=0)
    runner = ScriptedRunner(turns=turns, num_frames=3)
    outputs = runner.drive(StreamController(TASK, config=config, codec=CharacterCodec(), tokens_per_frame=1).run())
    assert [output.updates for output in outputs] == [()] * 3
    assert outputs[1].response == "Go."
    written, _ = stream(turns, num_frames=3)
    controller = StreamController(
        TASK, config=config, codec=CharacterCodec(), tokens_per_frame=1, prior_run=PriorRun(outputs=tuple(written))
    )
    again = ScriptedRunner(turns=turns, num_frames=3).drive(controller.run())
    assert [output.updates for output in again] == [()] * 3


def test_the_frame_of_a_user_turn_does_not_depend_on_rounding() -> None:
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=4.1, text="next?"),))
    config = StreamConfig(fps=30.0)
    controller = StreamController(task, config=config, codec=CharacterCodec(), tokens_per_frame=1)
    assert list(controller.frames.user_texts) == [123]  # 4.1 * 30 is 122.999... in floating point

"""The speculator drafts the turns of an earlier run only if this run may write them: a pass stays in the context."""

from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.static import pick_bucket
from stepscope.engine.records import UserTurn
from tests.support.streams.controlled import Turns, run_again, stream
from tests.support.streams.fakes import STEPS, CharacterCodec, ScriptedRunner, tiny_model

TASK = Task(goal="g", steps=STEPS)
LIMITS = {"max_seq_len": 300, "reserved_seq_len": 110}


@pytest.mark.parametrize(
    "written",
    [((), "x" * 500), (("S1->start" + " " * 500,), None), (("S1->start", "S1->complete") * 100, None)],
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
    assert list(controller.user_texts) == [123]  # 4.1 * 30 is 122.999... in floating point

"""What an earlier run tells is laid out only where this run could write it: a pass stays within the context."""

from typing import Any

import pytest

from engine.config import StreamConfig
from engine.control.controller import Steering, Task, control
from engine.control.speculator import Past
from engine.inference.kv_pool import Arena, FixedCache
from engine.inference.static import shape_of
from engine.records import UserTurn
from tests.engine.control.test_controller import Turns, again, stream
from tests.support.fakes import STEPS, CharacterScript, ScriptedRunner, tiny_model

TASK = Task(goal="g", steps=STEPS)
LIMITS = {"max_seq_len": 300, "reserved_seq_len": 110}


@pytest.mark.parametrize(
    "told",
    [((), "x" * 500), (("S1->start" + " " * 500,), None), (("S1->start", "S1->complete") * 100, None)],
    ids=["response", "update", "updates"],
)
def test_a_tale_of_longer_or_more_texts_than_may_be_written_is_not_laid_out(
    told: tuple[tuple[str, ...], str | None],
) -> None:
    turns: Turns = {20: told, 40: ((), "Go.")}
    allowed: dict[str, Any] = {"max_new_tokens": 600, "max_update_tokens": 600, "max_updates_per_frame": 300}
    outputs, _ = stream(turns, num_frames=60, **allowed, max_seq_len=200_000, reserved_seq_len=190_000)
    assert (outputs[20].updates, outputs[20].response) == told
    runner, fresh = (ScriptedRunner(turns=turns, num_frames=60) for _ in range(2))
    found, _ = again(runner, Past(outputs=tuple(outputs)), speak=0.5, update=0.5, task=TASK, **LIMITS)
    wanted, _ = again(fresh, Past(outputs=()), speak=0.5, update=0.5, task=TASK, **LIMITS)
    assert found == wanted
    assert runner.longest <= LIMITS["max_seq_len"]


def test_no_pass_leaves_its_slot() -> None:
    arena = Arena(tiny_model(), rows=2, capacity=64)
    cache = FixedCache(arena, 0)
    cache.advance(60)
    assert shape_of([4], [cache], picks=False, smallest=64, most=512) is not None
    with pytest.raises(AssertionError, match="leaves its slot"):
        shape_of([5], [cache], picks=False, smallest=64, most=512)


@pytest.mark.parametrize("policy", ["silent-token", "not-talk"])
def test_the_token_policies_write_no_updates_whatever_the_threshold(policy: str) -> None:
    """Their probability of an update is 0.0, and "not-talk" triggers at equality."""
    turns: Turns = {1: (("S1->start",), "Go.")}
    config = StreamConfig(decision_policy=policy, update_threshold=0)  # type: ignore[arg-type]
    runner = ScriptedRunner(turns=turns, num_frames=3)
    outputs = runner.drive(control(TASK, config=config, script=CharacterScript(), tokens_per_frame=1))
    assert [output.updates for output in outputs] == [()] * 3
    assert outputs[1].response == "Go."
    told, _ = stream(turns, num_frames=3)
    steering = Steering(
        TASK, config=config, script=CharacterScript(), tokens_per_frame=1, past=Past(outputs=tuple(told))
    )
    again = ScriptedRunner(turns=turns, num_frames=3).drive(steering.run())
    assert [output.updates for output in again] == [()] * 3


def test_a_user_turn_enters_at_the_frame_that_rounding_does_not_move() -> None:
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=4.1, text="next?"),))
    config = StreamConfig(fps=30.0)
    steering = Steering(task, config=config, script=CharacterScript(), tokens_per_frame=1)
    assert list(steering.user_ids) == [123]  # 4.1 * 30 is 122.999... in floating point

"""A run at other thresholds reuses the frames of an earlier run, against a scripted runner."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.engine.control.requests import Image, PassCounts
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.records import UserTurn
from tests.support.streams.controlled import ANY_TURNS, FORGETFUL, STRATEGIES, Turns, run_again
from tests.support.streams.fakes import RESPONSE, STEPS, ScriptedRunner

THRESHOLDS = st.sampled_from([0.5, 0.95])  # planned turns have the probability 0.9, all frames else 0.1


@settings(max_examples=80)
@given(
    turns=ANY_TURNS,
    num_frames=st.integers(0, 60),
    moves=st.lists(st.tuples(THRESHOLDS, THRESHOLDS), min_size=2, max_size=4),
    is_traced=st.booleans(),
    draft_tokens=st.sampled_from([0, 24]),
    asked_at=st.lists(st.floats(0, 30), max_size=2),
    max_seq_len=st.integers(180, 400),
    strategy=STRATEGIES,
)
def test_other_thresholds_on_an_earlier_run_give_the_outputs_of_a_new_run(
    turns: Turns,
    num_frames: int,
    moves: list[tuple[float, float]],
    is_traced: bool,
    draft_tokens: int,
    asked_at: list[float],
    max_seq_len: int,
    strategy: str,
) -> None:
    task = Task(goal="g", steps=STEPS, user_turns=tuple(UserTurn(time_s=time_s, text="hm") for time_s in asked_at))
    limits = {**FORGETFUL, "max_seq_len": max_seq_len, "draft_tokens": draft_tokens, "context_strategy": strategy}
    prior_run = PriorRun(outputs=())
    runner = ScriptedRunner(turns=turns, num_frames=num_frames)
    for speak, update in moves:
        outputs, controller = run_again(runner, prior_run, speak=speak, update=update, task=task, **limits)
        fresh = ScriptedRunner(turns=turns, num_frames=num_frames)
        limits_alone = {**limits, "lookahead": 1, "draft_tokens": 0}
        wanted, _ = run_again(fresh, PriorRun(outputs=()), speak=speak, update=update, task=task, **limits_alone)
        assert outputs == wanted
        prior_run = PriorRun(outputs=tuple(outputs), trace=controller.draft_buffer.trace if is_traced else None)
    repeated, controller = run_again(runner, prior_run, speak=speak, update=update, task=task, **limits)
    assert repeated == wanted
    assert controller.counts == PassCounts() or not is_traced


def test_frames_before_the_first_changed_decision_are_not_fed_again() -> None:
    turns: Turns = {2: (("S1->start",), None), 20: ((), "Go."), 40: (("S1->complete",), None)}
    runner = ScriptedRunner(turns=turns, num_frames=50)
    task = Task(goal="g", steps=STEPS)
    outputs, controller = run_again(runner, PriorRun(outputs=()), speak=0.95, update=0.5, task=task)
    prior_run = PriorRun(outputs=tuple(outputs), trace=controller.draft_buffer.trace)
    runner.requests.clear()
    outputs, _ = run_again(runner, prior_run, speak=0.5, update=0.5, task=task)
    assert outputs[20].response == "Go."
    assert runner.requests[0].num_cached == outputs[19].cache_tokens + 1  # the cache ends with the image of frame 20
    assert min(fed_frames(runner)) == 21


def test_after_a_refresh_the_context_is_fed_again_in_one_pass() -> None:
    turns: Turns = {70: ((), "Go.")}
    limits = {"max_seq_len": 200, "reserved_seq_len": 110}  # refresh at 90: every 58 frames
    runner = ScriptedRunner(turns=turns, num_frames=130)
    task = Task(goal="g", steps=STEPS)
    outputs, controller = run_again(runner, PriorRun(outputs=()), speak=0.95, update=0.5, task=task, **limits)
    assert [output.frame_index for output in outputs if output.refreshed] == [58, 116]
    prior_run = PriorRun(outputs=tuple(outputs), trace=controller.draft_buffer.trace)
    runner.requests.clear()
    run_again(runner, prior_run, speak=0.5, update=0.5, task=task, **limits)
    first = [piece.frame_index for piece in runner.requests[0].inputs if isinstance(piece, Image)]
    assert runner.requests[0].num_cached == 0
    assert first[:13] == list(range(58, 71))
    assert RESPONSE in runner.requests[0].inputs


def fed_frames(runner: ScriptedRunner) -> list[int]:
    return [p.frame_index for request in runner.requests for p in request.inputs if isinstance(p, Image)]

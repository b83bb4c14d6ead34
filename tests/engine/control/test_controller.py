"""The streaming controller against a scripted runner: no model, no torch."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.engine.control.intervention import force_outputs
from stepscope.engine.control.requests import Image, PassCounts
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.records import Forgotten, Reasoning, UserTurn
from tests.support.streams.controlled import ANY_TURNS, FORGETFUL, STRATEGIES, Turns, run_again, stream
from tests.support.streams.fakes import EOS, RESPONSE, STEPS, UPDATE, ScriptedRunner


def layout(runner: ScriptedRunner) -> str:
    """Write a context as text: frames as #n, openings as [D] and [A], end of turn as /."""
    names = {UPDATE: "[D]", RESPONSE: "[A]", EOS: "/"}
    pieces = []
    for token in runner.context:
        pieces.append(f"#{token.frame_index}" if isinstance(token, Image) else names.get(token) or chr(token - 10))
    return "".join(pieces)


def test_the_context_is_prompt_then_images_with_updates_before_the_response() -> None:
    _, runner = stream({1: (("S1->start",), "Go.")}, num_frames=3)
    assert layout(runner) == "g|S1=not_started,S2=not_started|#0#1[D]S1->start/[A]Go./#2"


def test_a_user_turn_enters_before_the_image_of_its_frame() -> None:
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=0.9, text="next?"),))
    _, runner = stream({}, num_frames=3, task=task)
    assert layout(runner).endswith("|#0<next?>#1#2")  # floor(0.9 s * 2 fps) = 1


def test_several_updates_at_one_frame_all_change_the_state() -> None:
    turns: Turns = {0: (("S1->start",), None), 2: (("S1->complete", "S2->start"), "Go.")}
    outputs, _ = stream(turns, num_frames=3)
    assert outputs[2].updates == ("S1->complete", "S2->start")
    assert outputs[2].dst_state == {"S1": "completed", "S2": "in_progress"}
    assert outputs[1].dst_state == {"S1": "in_progress", "S2": "not_started"}


def test_at_most_max_updates_per_frame_are_written() -> None:
    outputs, _ = stream({0: (("S1->start", "S1->complete"), None)}, num_frames=1, max_updates_per_frame=1)
    assert outputs[0].updates == ("S1->start",)


def test_a_text_ends_at_max_new_tokens_and_is_closed() -> None:
    outputs, runner = stream({0: ((), "abcdefgh")}, num_frames=2, max_new_tokens=3)
    assert outputs[0].response == "abc"
    assert layout(runner).endswith("#0[A]abc/#1")


def test_the_reasoning_before_a_message_stays_in_the_context_and_is_kept_beside_it() -> None:
    task = Task(goal="g", steps=STEPS)
    runner = ScriptedRunner(turns={1: ((), "<think>ab</think>Go."), 2: ((), "<think>never ends")}, num_frames=4)
    outputs, controller = run_again(runner, PriorRun(outputs=()), speak=0.5, update=0.5, task=task)
    assert outputs[1].response == "Go."
    assert outputs[1].reasoning == Reasoning(text="ab", num_tokens=17)
    assert outputs[2].response == ""
    assert outputs[2].reasoning == Reasoning(text="never ends", num_tokens=17)
    assert layout(runner).endswith("#1[A]<think>ab</think>Go./#2[A]<think>never ends/#3")
    prior_run = PriorRun(outputs=(), written=controller.draft_buffer.trace.written)
    again = ScriptedRunner(turns={}, num_frames=4)
    forced = force_outputs(outputs, until=4)
    replayed, _ = run_again(again, prior_run, speak=0.5, update=0.5, task=task, intervention=forced)
    assert [replace(output, speak_prob=0.1) for output in outputs] == replayed
    assert again.context == runner.context


@pytest.mark.parametrize("text", ["Do you ask where the red lid is?", "Turn it, turn it, turn it, turn it, turn it."])
def test_what_a_response_quotes_from_user_turns_or_itself_is_drafted(text: str) -> None:
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=0.5, text="Say where the red lid is?"),))
    runner = ScriptedRunner(turns={1: ((), text)}, num_frames=3)
    prior_run = PriorRun(outputs=())
    outputs, controller = run_again(runner, prior_run, speak=0.5, update=0.5, task=task, max_new_tokens=50)
    assert outputs[1].response == text
    assert controller.counts.accepted > len(text) // 2
    assert layout(runner).endswith(f"#1[A]{text}/#2")


def test_a_full_context_is_refreshed_with_the_present_state_and_the_turn_is_not_cut() -> None:
    turns: Turns = {3: (("S1->start",), "a long answer here"), 20: (("S1->complete",), None)}
    outputs, runner = stream(turns, num_frames=40, max_seq_len=170, reserved_seq_len=110)  # refresh at 60
    assert outputs[3].response == "a long answer here"
    assert next(output.frame_index for output in outputs if output.refreshed) == 4
    assert layout(runner).startswith("g|S1=completed,S2=not_started|#")
    assert sum(output.refreshed for output in outputs) >= 2
    assert outputs[-1].dst_state == {"S1": "completed", "S2": "not_started"}


@pytest.mark.parametrize(
    ("strategy", "wanted", "forgotten"),
    [
        ("drop-all", "#12#13#14", Forgotten(tokens=44, first_frame=0, last_frame=11)),
        (
            "drop-middle",
            "g|S1=not_started,S2=not_started|#8#9#10#11#12#13#14",
            Forgotten(tokens=8, first_frame=0, last_frame=7),
        ),
        (
            "sink-window",
            "g|S1=not_started,S2=not_started|#8#9#10#11#12#13#14",
            Forgotten(tokens=8, first_frame=0, last_frame=7),
        ),
        (
            "summarize-and-drop",
            "g|S1=not_started,S2=not_started|end|#12#13#14",
            Forgotten(tokens=55, first_frame=0, last_frame=11, summary="end"),
        ),
    ],
)
def test_a_full_context_is_shortened_as_its_strategy_defines(strategy: str, wanted: str, forgotten: Forgotten) -> None:
    turns: Turns = {11: ((), "end")} if strategy == "summarize-and-drop" else {}
    settings = {**FORGETFUL, "kept_tokens": 4, "max_seq_len": 154, "context_strategy": strategy}
    # full at 44 tokens: a prompt of 32 and 12 frames; a summary adds <sum>, an image, [A], its text and the end
    outputs, runner = stream(turns, num_frames=15, lookahead=1, speak_threshold=0.95, **settings)
    assert layout(runner) == wanted
    assert [(output.frame_index, output.forgotten) for output in outputs if output.refreshed] == [(12, forgotten)]


def test_cache_tokens_count_the_whole_context_of_the_frame() -> None:
    outputs, runner = stream({1: ((), "Go.")}, num_frames=2, tokens_per_frame=3)
    # prompt "g|S1=not_started,S2=not_started|" is 32 tokens, an image 3, [ASST] Go. <eos> is 5
    assert [output.cache_tokens for output in outputs] == [35, 43]
    assert len(runner.context) == 42  # the closing <eos> waits for the next frame


def test_silent_frames_are_one_pass_per_chunk() -> None:
    _, runner = stream({}, num_frames=64, lookahead=16, prefill_frames=16)
    assert runner.num_passes == 4


@settings(max_examples=60)
@given(
    turns=ANY_TURNS,
    num_frames=st.integers(0, 60),
    lookahead=st.integers(1, 70),
    draft_tokens=st.sampled_from([0, 1, 5, 24]),
    prefill=st.integers(1, 70),
    tokens_per_frame=st.integers(1, 3),
    asked_at=st.lists(st.floats(0, 30), max_size=4),
    max_seq_len=st.integers(180, 400),
    strategy=STRATEGIES,
)
def test_drafts_give_the_outputs_of_frame_by_frame_and_token_by_token(
    turns: Turns,
    num_frames: int,
    lookahead: int,
    draft_tokens: int,
    prefill: int,
    tokens_per_frame: int,
    asked_at: list[float],
    max_seq_len: int,
    strategy: str,
) -> None:
    task = Task(goal="g", steps=STEPS, user_turns=tuple(UserTurn(time_s=time_s, text="hm") for time_s in asked_at))
    frame_by_frame = {"lookahead": 1, "draft_tokens": 0}
    limits = {**FORGETFUL, "max_seq_len": max_seq_len, "context_strategy": strategy}
    one, alone = stream(
        turns, num_frames=num_frames, task=task, tokens_per_frame=tokens_per_frame, **frame_by_frame, **limits
    )
    many, chunked = stream(
        turns,
        num_frames=num_frames,
        task=task,
        tokens_per_frame=tokens_per_frame,
        lookahead=lookahead,
        prefill_frames=prefill,
        draft_tokens=draft_tokens,
        **limits,
    )
    assert one == many
    assert alone.context == chunked.context[: len(alone.context)]  # followed by drafts past the end of the video
    assert max(alone.max_length, chunked.max_length) <= max_seq_len
    assert [output.frame_index for output in one] == list(range(num_frames))


THRESHOLDS = st.sampled_from([0.5, 0.95])  # planned turns have the probability 0.9, all frames else 0.1


@settings(max_examples=30)
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


def fed_frames(runner: ScriptedRunner) -> list[int]:
    return [p.frame_index for request in runner.requests for p in request.inputs if isinstance(p, Image)]

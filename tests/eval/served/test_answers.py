"""What a served model answers, what it thinks before, and what is no answer; forms of real servers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.reasoning import MAX_REASONING, split_reasoning
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.grading import Reply
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.answers import Completion, NoAnswer, read_response
from stepscope.eval.served.chat import ChatClient, Endpoint, NoAnswerError, ServedModelError
from stepscope.eval.served.judge import EndpointJudge
from stepscope.eval.served.probabilities import read_token_probs
from stepscope.eval.served.prompts import FramePrompt
from stepscope.eval.served.video_chat import open_video_chat
from tests.support.paths import ASSETS
from tests.support.servers.served import ModelServer, serve_chat, serve_video_chat

VIDEO = ASSETS / "demo" / "boat.mp4"
THOUGHT = "The keel is visible. Nothing to tell now."
LENGTH: dict[str, Any] = {"finish_reason": "length"}


def reply(
    message: dict[str, Any] | str | None, *, usage: dict[str, Any] | None = None, **choice: Any
) -> dict[str, Any]:
    content = message if isinstance(message, dict) else {"role": "assistant", "content": message}
    return {"choices": [{"index": 0, "message": content, "finish_reason": "stop", **choice}], "usage": usage}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"<think>\n{THOUGHT}\n</think>\n\nSILENT", "SILENT"),
        (f"{THOUGHT}\n</think>\n\nSILENT", "SILENT"),
        ("<think>\n\n</think>\n\nHang it.", "Hang it."),
        ("<thinking>a</thinking> Hang it.", "Hang it."),
        ("[THINK]a[/THINK]Hang it.", "Hang it."),
        ("◁think▷a◁/think▷Hang it.", "Hang it."),
        ("<seed:think>a</seed:think>Hang it.", "Hang it."),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Go.<|return|>", "Go."),
        ("analysisWe need a word.assistantfinalGo.", "Go."),
        ("<|channel>thought\na<channel|>Go.<turn|>", "Go."),
        ("<think>a</think>\n<answer>\n<|begin_of_box|>Go.<|end_of_box|>\n</answer>", "Go."),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Go.<|END_RESPONSE|>", "Go."),
        ("Here is my thought process: a. Here is my response: Go.", "Go."),
        ("Is it </think> now? No.</think>Go.", "Go."),
        ("Hang <think>a</think> it.", "Hang it."),
        ("Hang it. <think>a</think>", "Hang it."),
        ("<think>a</think>b<think>c</think>Go.", "Go."),
        ("Analysis of the hull: it is set.", "Analysis of the hull: it is set."),
        ("Write <think> on the label.", "Write <think> on the label."),
        ("</Response> Hang it.", "</Response> Hang it."),
        ("</Response>", "</Response>"),
        ("<think>a</think></Silence>", "</Silence>"),
    ],
)
def test_the_message_is_what_follows_the_thinking(written: str, message: str) -> None:
    answer = read_response(reply(written))
    assert isinstance(answer, Completion)
    assert answer.text == message


@pytest.mark.parametrize(
    "written",
    [
        "<think>\nI could say that",
        "[THINK]I could",
        "◁think▷I could",
        "<|channel|>analysis<|message|>I could",
        "<|channel|>analysis",
        "analysisI could",
        "<|channel>thought\nI could",
        "<think>a</think><think>b",
    ],
)
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_a_thinking_without_an_end_is_no_answer(written: str, finish: str) -> None:
    assert split_reasoning(written)[1] is None
    answer = read_response(reply(written, finish_reason=finish))
    assert isinstance(answer, NoAnswer)
    assert answer.is_cut
    assert "reasoning" in answer.problem


@pytest.mark.parametrize(
    ("message", "text", "thought"),
    [
        ({"content": "Go.", "reasoning_content": THOUGHT}, "Go.", THOUGHT),
        ({"content": "Go.", "reasoning": THOUGHT, "reasoning_details": [{"type": "reasoning.text"}]}, "Go.", THOUGHT),
        ({"content": "Go.", "reasoning_details": [{"type": "reasoning.summary", "summary": THOUGHT}]}, "Go.", THOUGHT),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                    {"type": "text", "text": "Go."},
                ]
            },
            "Go.",
            THOUGHT,
        ),
        ({"content": [{"type": "reasoning", "text": THOUGHT}, {"type": "output_text", "text": "Go."}]}, "Go.", THOUGHT),
        ({"content": "x" * 9 + "</think>Go."}, "Go.", "x" * 9),
        ({"content": f"{THOUGHT}\n\nGo.", "reasoning_content": f"\n{THOUGHT}"}, "Go.", THOUGHT),
        ({"content": "Hang <think>a</think> it."}, "Hang it.", "a"),
        ({"content": "Go.", "thinking": "y" * 9999}, "Go.", "y" * MAX_REASONING),
        ({"content": "Go.", "reasoning": None, "tool_calls": [], "refusal": None}, "Go.", None),
    ],
)
def test_reasoning_is_kept_beside_the_answer_and_bounded(
    message: dict[str, Any], text: str, thought: str | None
) -> None:
    answer = read_response(reply(message))
    assert isinstance(answer, Completion)
    assert answer.text == text
    assert (answer.reasoning and answer.reasoning.text) == thought
    assert answer.is_opened_by_prompt == str(message["content"]).startswith("x")


EMPTY: list[tuple[dict[str, Any], str]] = [
    (reply({"content": "", "reasoning": THOUGHT}, **LENGTH), "limit of tokens ended it in its reasoning"),
    (reply("", usage={"completion_tokens_details": {"reasoning_tokens": 128}}, **LENGTH), "in its reasoning"),
    (reply({"content": THOUGHT, "reasoning": THOUGHT}), "the model gave reasoning alone"),
    (reply("", **LENGTH), "before its first word"),
    (reply("", finish_reason="max_tokens"), "before its first word"),
    (reply(None), "content is null"),
    (reply({"role": "assistant"}), "content is null"),
    (reply({"content": None, "reasoning_content": "SILENT"}), "reasoning alone"),
    (reply("", usage={"completion_tokens_details": {"reasoning_tokens": 9}}), "reasoning alone"),
    (reply({"content": f"<think>{THOUGHT}</think>"}), "reasoning alone"),
    (reply("", finish_reason="content_filter"), "a filter stops it, content_filter"),
    (reply("Hang the", finish_reason="content_filter"), "a filter stops it"),
    (reply("", finish_reason="sensitive"), "a filter stops it, sensitive"),
    (reply({"content": None, "refusal": "I cannot help."}), "the model refuses: I cannot help."),
    (reply({"content": [{"type": "refusal", "refusal": "I cannot."}]}), "the model refuses: I cannot."),
    (reply({"content": None, "tool_calls": [{"id": "1"}]}, finish_reason="tool_calls"), "calls a tool"),
    (reply({"content": "", "tool_calls": [{"id": "1"}]}), "calls a tool"),
    (reply({"content": "", "function_call": {"name": "f"}}, finish_reason="function_call"), "calls a tool"),
    (reply("", finish_reason=None), "its finish reason is missing"),
    (reply("", finish_reason="repetition"), "its finish reason is repetition"),
    ({"choices": []}, r"no choices\[0\].message; check that the address ends in /v1"),
    ({"detail": "Not here"}, r"no choices\[0\].message"),
    ({"choices": [{"text": "old form"}]}, r"no choices\[0\].message"),
    ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "an error in its answer: Unexpected endp"),
]


def answering(*bodies: Any, status: int = 200) -> ModelServer:
    """Return a server that answers with these bodies in order, and then with the last one."""
    waiting = [*bodies]
    return ModelServer(answers=[], respond=lambda _: (status, waiting.pop(0) if len(waiting) > 1 else waiting[0]))


@contextmanager
def asking(server: ModelServer, *, num_retries: int = 0) -> Iterator[ChatClient]:
    with (
        serve_chat(server),
        ChatClient(Endpoint(url=server.url, model="m", num_retries=num_retries), sleep=lambda _: None) as client,
    ):
        yield client


def test_no_answer_is_an_error_and_not_silence() -> None:
    with asking(answering(*(body for body, _ in EMPTY))) as client:
        for _, words in EMPTY:
            with pytest.raises(NoAnswerError, match=words):
                client.complete([], max_tokens=8)


@pytest.mark.parametrize(
    "body", [reply(""), reply("  \n"), reply("<think>\n\n</think>\n\n"), reply("", finish_reason="eos_token")]
)
def test_an_empty_answer_that_stopped_by_itself_is_silence(body: dict[str, Any]) -> None:
    answer = read_response(body)
    assert isinstance(answer, Completion)
    assert (answer.text, answer.reasoning, answer.has_stopped) == ("", None, True)


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>", "<|eot_id|>", "<end_of_turn>", "<|im_end|>\n<|endoftext|>"])
def test_a_token_of_the_end_that_a_server_leaves_in_the_text_is_no_part_of_it(end: str) -> None:
    for words in ("SILENT", "The hull is set down.", ""):
        answer = read_response(reply(words + end))
        assert isinstance(answer, Completion)
        assert answer.text == words


@pytest.mark.parametrize("written", ["**SILENT**", "`SILENT`", "[SILENT]", "_silent_.", '"SILENT"'])
def test_silence_with_marks_around_it_is_silence(written: str) -> None:
    assert FramePrompt().read(written) == ("silent", None)


@pytest.mark.parametrize("call", ['<tool_call>{"name": "look"}</tool_call>', "<function=look></function>"])
def test_a_call_of_a_tool_in_the_text_is_no_message(call: str) -> None:
    answer = read_response(reply(call))
    assert isinstance(answer, NoAnswer)
    assert "tool" in answer.problem


def test_a_chosen_token_without_a_probability_makes_all_unknown() -> None:
    chosen = {"token": "SILENT", "logprob": -math.inf, "top_logprobs": []}
    assert read_token_probs({"logprobs": {"content": [chosen]}}) == ()


def record(server: ModelServer, out: Path, *more: str) -> int:
    words = ["run", str(VIDEO), "--endpoint", server.url, "--model", "m", "--out", str(out), "--fps", "0.1"]
    return main([*words, "--goal", "g", "--retries", "0", *more])


def outputs(out: Path) -> tuple[FrameOutput, ...]:
    run = RunFolder(out)
    return run.outputs(read_split(run.split_path()).samples[0])


@pytest.mark.parametrize("body", [reply("", **LENGTH), reply("SILENT", **LENGTH), reply("<think>a", **LENGTH)])
def test_a_video_without_answers_fails_and_names_the_option(
    tmp_path: Path, body: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with serve_chat(answering(body)) as server:
        assert record(server, tmp_path / "run") == 1
    said = capfd.readouterr().err
    assert "raise --max-new-tokens" in said
    found = RunFolder(tmp_path / "run").record("boat")
    assert found is not None
    assert "--max-new-tokens" in found.error


def test_a_template_that_opens_the_thinking_is_remembered_so_that_a_cut_one_is_no_message() -> None:
    server = answering(reply(f"{THOUGHT}</think>Go."), reply("Okay, the picture shows", **LENGTH))
    with asking(server) as client:
        assert client.complete([], max_tokens=8).text == "Go."
        with pytest.raises(NoAnswerError, match=r"in its reasoning \(it is 8\); raise --max-new-tokens"):
            client.complete([], max_tokens=8)


def test_a_cut_message_is_recorded_with_a_warning(tmp_path: Path) -> None:
    with (
        serve_chat(answering(reply("Hang the", **LENGTH))) as server,
        pytest.warns(UserWarning, match="an answer is cut at --max-new-tokens 7"),
    ):
        assert record(server, tmp_path / "run", "--max-new-tokens", "7") == 0
    assert outputs(tmp_path / "run")[0].response == "Hang the"


def test_reasoning_is_recorded_with_its_tokens_and_time_and_kept_by_resume(tmp_path: Path) -> None:
    usage = {"completion_tokens_details": {"reasoning_tokens": 12}}
    thinking = reply({"content": "SILENT", "reasoning": THOUGHT}, usage=usage)
    with serve_chat(answering(thinking, thinking, reply(None), reply("Go."))) as server:
        assert record(server, tmp_path / "run") == 1
        assert record(server, tmp_path / "run", "--resume") == 0
    first, second, third = outputs(tmp_path / "run")[:3]
    assert (first.response, first.state) == (None, "silent")
    assert first.reasoning is not None
    assert (first.reasoning.text, first.reasoning.num_tokens) == (THOUGHT, 12)
    assert first.reasoning.latency_ms is not None
    assert 0 < first.reasoning.latency_ms <= first.latency_ms
    assert second.reasoning is not None
    assert (third.response, third.reasoning) == ("Go.", None)


RATE = {"message": "Rate limit exceeded: free-models-per-min"}


ERRORS: list[tuple[object, int, int]] = [
    ({"error": {"code": 429, **RATE}, "user_id": "u"}, 429, 3),
    ({"error": {"code": "429", **RATE}}, 429, 3),
    ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, 429, 3),
    ([{"error": {"status": "RESOURCE_EXHAUSTED", "message": "slow down"}}], 429, 3),
    (reply("", finish_reason="error", error={"code": 502, "message": "upstream"}), 502, 3),
    (reply("The hull", finish_reason="error"), 502, 3),
    (reply("", finish_reason="insufficient_system_resource"), 503, 3),
    ({"object": "error", "message": "The engine is gone", "type": "InternalServerError", "code": 500}, 500, 3),
    ({"error": {"code": 401, "message": "no auth"}}, 401, 1),
    ({"error": {"code": "invalid_api_key", "message": "wrong"}}, 401, 1),
    ({"error": {"code": True, "message": "400"}}, 400, 1),
]
"""Bodies, the status that each means, and the requests until it is given up."""


def test_an_error_inside_a_200_counts_as_the_status_that_it_names() -> None:
    server = answering(*(body for body, _, num_requests in ERRORS for _ in range(num_requests)))
    with asking(server, num_retries=2) as client:
        for _, status, num_requests in ERRORS:
            server.requests.clear()
            with pytest.raises(ServedModelError, match=f"status {status} in its answer") as error:
                client.complete([], max_tokens=8)
            assert len(server.requests) == num_requests
            assert not isinstance(error.value, NoAnswerError)


def test_an_error_inside_a_200_that_passes_is_retried() -> None:
    server = answering({"error": {"code": 429, **RATE}}, reply("", finish_reason="error"), reply("Go."))
    with asking(server, num_retries=2) as client:
        assert client.complete([], max_tokens=8).text == "Go."
    assert len(server.requests) == 3


def test_a_filtered_prompt_is_no_answer() -> None:
    body = {"error": {"code": "content_filter", "message": "The prompt was filtered", "status": 400}}
    with asking(answering(body, status=400)) as client, pytest.raises(NoAnswerError, match="content_filter"):
        client.complete([], max_tokens=8, needs_logprobs=True)


def test_a_deeply_nested_body_is_one_sentence() -> None:
    body = '{"error": {"message": ' + "[" * 900 + "]" * 900 + "}}"
    with asking(ModelServer(answers=[], raw=body)) as client, pytest.raises(NoAnswerError, match="an error in its"):
        client.complete([], max_tokens=8)


def test_a_long_tail_of_marks_is_cut_at_once() -> None:
    answer = read_response(reply("<think>a</think>Go." + "</s>" * 20_000))
    assert isinstance(answer, Completion)
    assert answer.text == "Go."


@pytest.mark.parametrize(
    "body",
    [
        reply("<think>\nGrade 3 would need all key points, so let me list", **LENGTH),
        reply("Grade 3 would need all key points, so let me list", **LENGTH),
        reply({"content": "", "reasoning": "Grade 3"}, **LENGTH),
        reply({"content": None, "refusal": "I cannot give 2."}),
        reply("3", finish_reason="content_filter"),
    ],
)
def test_a_judge_that_is_cut_or_refuses_gives_no_grade_and_keeps_none(tmp_path: Path, body: dict[str, Any]) -> None:
    replies = [Reply(question="", gold="Now.", text="Later.")]
    with asking(answering(body)) as client:
        client.is_judge = True
        with pytest.raises(ServedModelError, match="the judge m at") as error:
            EndpointJudge(client, tmp_path / "kept.json")(replies)
    assert not isinstance(error.value, NoAnswerError)
    assert "--max-new-tokens" not in str(error.value)
    assert not (tmp_path / "kept.json").exists()


def test_a_judge_that_thinks_is_graded_by_its_answer(tmp_path: Path) -> None:
    server = answering(reply("<think>Not 3, it lacks 1 point.</think>\n2"))
    with asking(server) as client:
        assert EndpointJudge(client, tmp_path / "kept.json")([Reply(question="", gold="a", text="b")]) == [1]
    assert server.requests[0]["max_tokens"] >= 1024


DONE = {"type": "response.text.done"}


def text_events(text: str, **done: Any) -> list[dict[str, Any]]:
    return [{"type": "response.text.delta", "delta": text}, {**DONE, **done}]


def test_a_stream_answers_after_its_thinking_and_a_passing_error_is_asked_again() -> None:
    waits: list[float] = []
    busy = {"type": "error", "error": {"code": 429, "message": "busy"}}
    events = [[busy], text_events(f"<think>{THOUGHT}</think>SILENT")]
    with (
        serve_video_chat(ModelServer(answers=[], events=events)) as server,
        open_video_chat(Endpoint(url=server.url, model="m"), sleep=waits.append) as chat,
    ):
        answer = chat.ask("?")
    assert answer.text == "SILENT"
    assert answer.reasoning is not None
    assert answer.reasoning.text == THOUGHT
    assert waits == [1.0]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (text_events("<think>I could"), "in its reasoning"),
        (text_events("", finish_reason="length"), "before its first word"),
        ([{"type": "response.reasoning.delta", "delta": "Hm"}, DONE], "reasoning alone"),
        ([{"type": "error", "message": "No frames buffered"}], "an error in its answer: No frames buffered"),
        ([{"type": "error", "message": "wrong", "code": 400}], "status 400 in its answer: wrong"),
    ],
)
def test_a_stream_without_an_answer_is_an_error(events: list[dict[str, Any]], words: str) -> None:
    with (
        serve_video_chat(ModelServer(answers=[], events=[events])) as server,
        open_video_chat(Endpoint(url=server.url, model="m"), sleep=lambda _: None) as chat,
        pytest.raises(ServedModelError, match=words),
    ):
        chat.ask("?")

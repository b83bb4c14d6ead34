"""Probabilities of silence and of yes from the logprobs of a served model."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.served.answers import Completion, read_response
from stepscope.eval.served.probabilities import read_silence_prob, read_token_probs, read_yes_prob
from tests.support.paths import ASSETS
from tests.support.servers.served import ModelServer, serve_chat, serve_video_chat

STEPS = "S1: hang the sail\nS2: paint the hull\n"


def token(text: str, prob: float, **top: float) -> dict[str, Any]:
    others = [{"token": name, "logprob": math.log(one)} for name, one in {text: prob, **top}.items()]
    return {"token": text, "logprob": math.log(prob), "top_logprobs": others}


def choice(*tokens: dict[str, Any], message: object = "x") -> dict[str, Any]:
    content = message if isinstance(message, dict) else {"content": message}
    return {"message": content, "logprobs": {"content": list(tokens)}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ([token("SIL", 0.5), token("ENT", 0.5), token(".", 0.9)], 0.25),
        ([token(" Silent", 0.5)], 0.5),
        ([token("SI", 0.4), token("n", 0.7, LENT=0.1, L=0.05, x=0.1)], 0.06),
        ([token("Hang", 0.6, S=0.1, SILENT=0.2)], 0.3),
        ([token("Hang", 0.6)], 0.0),
        ([], math.nan),
    ],
)
def test_the_probability_of_silence_follows_its_words(tokens: list[dict[str, Any]], wanted: float) -> None:
    assert read_silence_prob(read_token_probs(choice(*tokens)), "SILENT") == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ([token("Yes", 0.3, yes=0.1, **{" NO": 0.1, "x": 0.5})], 0.8),
        ([token("Maybe", 0.9)], math.nan),
        ([], math.nan),
    ],
)
def test_the_probability_of_yes_is_its_share_over_all_spellings(tokens: list[dict[str, Any]], wanted: float) -> None:
    assert read_yes_prob(read_token_probs(choice(*tokens))) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    "logprobs",
    [None, {"content": [token("a", 0.5) | {"logprob": "x"}]}],
)
def test_logprobs_in_another_form_are_none(logprobs: object) -> None:
    assert read_token_probs({"logprobs": logprobs}) == ()


def speak(answer: str) -> list[dict[str, Any]]:
    """Return the tokens of an answer: P(yes) is .75 for yes and .3 for no, P(silence) .9 for silence and .2 else."""
    if answer in ("yes", "no"):
        return [token(answer, 0.6 if answer == "yes" else 0.7, **({"no": 0.2} if answer == "yes" else {"Yes": 0.3}))]
    return [token(answer, 0.9)] if answer == "SILENT" else [token("Hang", 0.6, SILENT=0.2), token(" it.", 0.9)]


def record(folder: Path, server: ModelServer, *options: str) -> RunFolder:
    steps = folder.parent / "steps.txt"
    steps.write_text(STEPS)
    words = ["run", str(ASSETS / "demo" / "boat.mp4"), "--out", str(folder), "--endpoint", server.url, "--model", "m"]
    assert main([*words, "--fps", "0.1", "--goal", "build", "--steps", str(steps), *options]) == 0
    return RunFolder(folder)


def test_a_preset_with_questions_records_the_probabilities_of_their_answers(tmp_path: Path) -> None:
    answers = ["SILENT", "no", "yes", "Hang it.", "no", "no", "no"]
    server = ModelServer(answers=["yes", *answers], logprobs=speak)  # the first one shows that it has logprobs
    with serve_chat(server):
        run = record(tmp_path / "run", server, "--preset", "zero-shot", "--fps", "0.1")
    (sample,) = read_split(run.split_path()).samples
    first, second = run.outputs(sample)[:2]
    assert first.signals == pytest.approx({"not_silent_prob": 0.1, "yes_speak_prob": 0.3, "yes_update_prob": 0.75})
    assert second.signals == pytest.approx({"not_silent_prob": 0.8, "yes_speak_prob": 0.3, "yes_update_prob": 0.3})
    assert (first.updates, first.dst_state) == (("S1->start",), {"S1": "in_progress", "S2": "not_started"})
    assert second.updates == ()
    assert (first.response, second.response) == (None, "Hang it.")
    asked = [request["messages"][-1]["content"][-1]["text"].splitlines()[-1] for request in server.requests[1:]]
    assert asked[1].startswith("Should you say something")
    assert asked[5:7] == [
        'Has the user completed the step "hang the sail"? Answer yes or no.',
        'Has the user started the step "paint the hull"? Answer yes or no.',
    ]
    assert server.requests[1]["messages"][0]["role"] == "system"
    specs = {spec.name: spec for spec in run.signals()}
    assert (specs["not_silent_prob"].decides, specs["not_silent_prob"].threshold) == ("speak", 0.5)


@pytest.mark.parametrize("kind", ["silent about it", "a stream"])
def test_without_logprobs_the_signals_have_no_values_and_say_why(tmp_path: Path, kind: str) -> None:
    probe = [] if kind == "a stream" else ["yes"]
    server = ModelServer(answers=[*probe, "SILENT", "Hang it."])
    serve = serve_video_chat if kind == "a stream" else serve_chat
    with serve(server):
        run = record(tmp_path / "run", server, "--decision-policy", "answer")
    (sample,) = read_split(run.split_path()).samples
    outputs = run.outputs(sample)
    assert not any(output.signals for output in outputs)
    assert [output.response for output in outputs[:2]] == [None, "Hang it."]
    reasons = {spec.missing for spec in run.signals()}
    assert reasons == {"vLLM-Omni's stream has no logprobs" if kind == "a stream" else "the server gives no logprobs"}
    assert not any(output.updates for output in outputs)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["has_states"] is False
    if kind == "silent about it":
        assert len(server.requests) == len(outputs) + 1, "no question is asked in vain"


def test_a_preset_of_states_reads_them_from_the_answers(tmp_path: Path) -> None:
    server = ModelServer(answers=["</Silence>", "</Standby>", "</Response> Hang it.", "Hm."])
    with serve_chat(server):
        run = record(tmp_path / "run", server, "--preset", "streamo", "--fps", "0.1")
    (sample,) = read_split(run.split_path()).samples
    outputs = run.outputs(sample)[:4]
    assert [output.state for output in outputs] == ["silence", "standby", "response", "respond"]
    assert [output.response for output in outputs] == [None, None, "Hang it.", "Hm."]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["recorded"]["settings"]["prompt"]["states"]


def spell(text: str, **top: float) -> dict[str, Any]:
    """Return a token with its bytes, of probability .9 unless ``top`` has it."""
    return {**token(text, top.get(text, 0.9), **top), "bytes": list(text.encode())}


def test_a_model_that_thinks_is_asked_its_questions_with_the_tokens_of_an_answer(tmp_path: Path) -> None:
    def respond(request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if request["max_tokens"] == 1:
            cut = choice(spell("Okay", yes=0.2, no=0.1), message="Okay")
            return 200, {"choices": [cut | {"finish_reason": "length"}]}
        question = request["messages"][-1]["content"][-1]["text"].splitlines()[-1]
        word = "yes" if question.endswith("yes or no.") else "SILENT"
        written = spell(word, **{word: 0.6, "no": 0.2})
        tokens = [spell("Okay", yes=0.2, no=0.1), spell("</think>"), spell("\n\n"), written]
        return 200, {"choices": [choice(*tokens, message=f"Okay</think>\n\n{word}")]}

    with serve_chat(ModelServer(answers=[], respond=respond)) as server:
        run = record(tmp_path / "run", server, "--preset", "zero-shot")
    signals = run.outputs(read_split(run.split_path()).samples[0])[0].signals
    assert signals["yes_speak_prob"] == pytest.approx(0.75)
    assert signals["not_silent_prob"] == pytest.approx(0.4)
    assert [request["max_tokens"] == 1 for request in server.requests][:3] == [True, False, False]


WORDS = [spell("SIL", SIL=0.95), spell("ENT", ENT=0.99)]
HIDDEN = {"content": "SILENT", "reasoning_content": "The keel"}


AFTER_THINKING: list[tuple[list[dict[str, Any]], object]] = [
    (WORDS, "SILENT"),
    ([*WORDS, spell("<|im_end|>")], "SILENT"),
    ([spell("The"), spell(" keel"), spell("</think>"), spell("\n\n"), *WORDS], HIDDEN),
    ([spell("The"), spell(" keel"), *WORDS], HIDDEN),
    ([spell("<think>"), spell("a"), spell("</think>"), *WORDS], "<think>a</think>SILENT"),
    ([spell("<|channel|>"), spell("final"), spell("<|message|>"), *WORDS, spell("<|return|>")], "SILENT"),
    ([spell("</think>"), spell("<answer>"), *WORDS, spell("</answer>")], "</think><answer>SILENT</answer>"),
]
OTHERS: list[tuple[list[dict[str, Any]], object]] = [
    ([spell("The"), spell(" keel")], HIDDEN),  # of the reasoning alone
    ([spell("I"), spell(" say "), *WORDS], "SILENT"),  # of words that the answer lacks
    ([spell("token_id:9"), spell("token_id:12")], "SILENT"),
    ([*WORDS, spell(" now")], "SILENT"),
    ([spell(">\n\nSIL"), spell("ENT")], {"content": "SILENT", "reasoning": "a"}),
    ([{**spell("SIL"), "bytes": 10**9}, spell("ENT"), spell("!")], "SILENT"),
    ([{**spell("Hang"), "top_logprobs": []}], "Hang"),
    ([], "SILENT"),
]


@pytest.mark.parametrize(
    ("tokens", "message", "wanted"),
    [*((*case, 0.95 * 0.99) for case in AFTER_THINKING), *((*case, math.nan) for case in OTHERS)],
)
def test_the_tokens_after_the_thinking_give_the_probability_and_others_none(
    tokens: list[dict[str, Any]], message: object, wanted: float
) -> None:
    answer = read_response({"choices": [choice(*tokens, message=message)]})
    assert isinstance(answer, Completion)
    assert read_silence_prob(answer.tokens, "SILENT") == pytest.approx(wanted, nan_ok=True)


def test_a_character_in_several_tokens_is_joined_by_its_bytes() -> None:
    boat = "\N{SAILBOAT}!".encode()
    parts = [{**spell("x"), "bytes": list(boat[:2])}, {**spell("y"), "bytes": list(boat[2:])}]
    answer = read_response({"choices": [choice(*parts, message="\N{SAILBOAT}!")]})
    assert isinstance(answer, Completion)
    assert [one.text for one in answer.tokens] == ["x", "y"]

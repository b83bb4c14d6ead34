"""A served model words the dialogues: what does not fit is asked again, then written by the templates, and counted."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.dialogues.check import check_dialogue
from stepscope.eval.dialogues.served import KeptAnswers, fill_slots, make_batches
from stepscope.eval.dialogues.slots import plan_dialogue
from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError
from tests.support.paths import ASSETS, ROOT
from tests.support.servers.served import ModelServer, serve_chat

SPLIT = ASSETS / "demo" / "val.json"
_SLOT = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


def read_slots(request: dict[str, Any]) -> dict[str, str]:
    """Return the facts of the slots that a request asks for."""
    return dict(_SLOT.findall(request["messages"][1]["content"]))


def word(facts: str) -> str:
    """Return a text that fits: the quoted facts, and the number of steps that are left."""
    quoted = ", ".join(re.findall(r'"(.*?)"', facts))
    left = re.search(r"left: (\d+)", facts)
    return f"A model says: {quoted}{left[1] + ' steps' if left else ''}."


def answer(texts: dict[str, str]) -> tuple[int, Any]:
    content = f"Here you are:\n```json\n{json.dumps(texts)}\n```"
    return 200, {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}


def respond_well(request: dict[str, Any]) -> tuple[int, Any]:
    return answer({number: word(facts) for number, facts in read_slots(request).items()})


def run(server: ModelServer, out: Path, *more: str) -> int:
    words = ["dialogues", str(SPLIT), "--out", str(out), "--endpoint", server.url, "--model", "m", "--rate", "0.4"]
    return main([*words, "--retries", "0", *more])


def test_a_model_words_all_slots_with_its_origin_after_an_estimate(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out.json"
    with serve_chat(ModelServer(answers=[], respond=respond_well)) as server:
        assert run(server, out, "--estimate") == 0
        assert re.search(r"m: 8 requests, about [\d,]+ tokens of prompts and [\d,]+ of answers", capfd.readouterr().out)
        assert (server.requests, out.parent.exists()) == ([], False)
        assert run(server, out) == 0
        assert len(server.requests) == 8
        first = out.read_bytes()
        assert run(server, out, "--workers", "1") == 0
        assert len(server.requests) == 8, "kept answers are not asked again"
        assert out.read_bytes() == first
        assert run(server, out, "--estimate") == 0
    shown = capfd.readouterr().out
    assert "m: 0 requests" in shown
    split = read_split(out)
    num_texts = split.provenance["counts"]["turns"]
    assert f"turns {num_texts}, turns by templates 0, questions 16, earlier turns replaced 62\n" in shown
    assert split.reference_writer == "m"
    assert "Never mention times" in split.provenance["instruction"]
    spoken = [turn for sample in split.samples for turn in sample.turns if turn.role != "update"]
    assert len(spoken) == num_texts
    assert all(turn.text.startswith("A model says: ") for turn in spoken)
    assert not [finding for sample in split.samples for finding in check_dialogue(sample)]
    prompts = "\n".join(request["messages"][1]["content"] for request in server.requests)
    assert not re.search(r"\d\.\d|\d:\d\d|\d s\b", prompts), "no time is told"


def spoil(change: Callable[[int, str], str | None]) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """Return a server whose first answers to each slot are changed by its facts; None leaves the slot out."""

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        texts = {number: change(int(number), facts) for number, facts in read_slots(request).items()}
        return answer({number: text for number, text in texts.items() if text is not None})

    return respond


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda number, facts: None if number % 2 else word(facts), "must be one line"),
        (lambda number, facts: word(facts) + " At 12:30." * (number % 2), "must not name a time"),
        (lambda number, facts: word(facts) + " In 5 seconds." * (number % 2), "must not name a time"),
        (lambda number, facts: word(facts) + "\nMore." * (number % 2), "must be one line"),
        (lambda number, facts: word(facts) + " Long." * 100 * (number % 2), "must be one line"),
        (
            lambda number, facts: word(facts) + " Put on the roof, stack the lamp." * (number % 2),
            "must not name a step",
        ),
        (lambda number, facts: "Yes." if number % 2 else word(facts), "must contain the"),
    ],
)
def test_texts_that_do_not_fit_are_asked_again_with_the_reason(
    change: Callable[[int, str], str | None], problem: str, tmp_path: Path
) -> None:
    """The bad answers end at the second request of a slot, or never: then the templates write it."""

    def relent(number: int, facts: str) -> str | None:
        return word(facts.partition(" Your last text")[0]) if "did not fit" in facts else change(number, facts)

    sample = next(one for one in read_samples(SPLIT) if one.goal == "build the house")
    batches = make_batches([(sample, plan_dialogue(sample, rate=0.4))])
    num_slots = sum(len(slots) for _, slots in batches)
    for is_stubborn in (False, True):
        with serve_chat(ModelServer(answers=[], respond=spoil(change if is_stubborn else relent))) as server:
            client = partial(ChatClient, Endpoint(url=server.url, model="m"))
            kept = KeptAnswers(tmp_path / f"{is_stubborn}.jsonl", model="m")
            texts = fill_slots(batches, kept, client, num_workers=1)
        assert f"Your last text did not fit: it {problem}" in server.requests[1]["messages"][1]["content"]
        assert len(server.requests) == 2, "an equal prompt would give an equal answer"
        refused = set(read_slots(server.requests[1]))
        assert 0 < len(refused) < num_slots
        assert len(texts) == (num_slots - len(refused) if is_stubborn else num_slots)


def test_templates_write_and_count_what_a_model_never_gets_right(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bodies = iter(["no JSON", '{"0": 5, "x": "y", "1": "One\\u2028two."}', "[1]", "{", ""])
    with serve_chat(ModelServer(answers=[])) as server:
        server.respond = lambda _: (200, {"choices": [{"message": {"content": next(bodies, "{}")}}]})
        assert run(server, tmp_path / "out.json") == 0
    shown = capfd.readouterr().out
    split = read_split(tmp_path / "out.json")
    num_texts, num_templates = split.provenance["counts"]["turns"], split.provenance["counts"]["turns by templates"]
    assert num_templates >= num_texts - 1
    assert f"turns {num_texts}, turns by templates {num_templates}, " in shown
    assert main(["dialogues", str(tmp_path / "out.json"), "--check"]) == 0


def test_a_late_answer_is_asked_for_again_and_a_dead_endpoint_ends_the_command(tmp_path: Path) -> None:
    sample, is_late = read_samples(SPLIT)[0], threading.Event()
    batches = make_batches([(sample, plan_dialogue(sample, rate=0))])

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        if not is_late.is_set():
            is_late.set()
            gave_up.wait(30)
        return respond_well(request)

    gave_up, waits = threading.Event(), list[float]()

    def wait(time_s: float) -> None:
        waits.append(time_s)
        gave_up.set()

    with serve_chat(ModelServer(answers=[], respond=respond)) as server:
        endpoint = Endpoint(url=server.url, model="m", timeout_s=0.2)
        client = partial(ChatClient, endpoint, sleep=wait)
        kept = KeptAnswers(tmp_path / "kept.jsonl", model="m")
        texts = fill_slots(batches, kept, client, num_workers=1)
        assert (len(texts), waits) == (len(batches[0][1]), [1.0])
    with pytest.raises(ServedModelError, match="gives no answer"):
        fill_slots(batches, KeptAnswers(tmp_path / "none.jsonl", model="m"), client, num_workers=2)


def test_a_killed_command_continues_without_asking_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, reached, going_on = tmp_path / "out.json", threading.Event(), threading.Event()
    kept = tmp_path / "out.json.answers.jsonl"

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        if len(server.requests) == 4 and not going_on.is_set():
            reached.set()
            going_on.wait(60)
        return respond_well(request)

    with serve_chat(ModelServer(answers=[])) as server:
        server.respond = respond
        words = ["--out", str(out), "--endpoint", server.url, "--model", "m", "--rate", "0.4", "--workers", "1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "stepscope", "dialogues", str(SPLIT), *words],
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert reached.wait(60), process.poll()
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            going_on.set()
        assert not out.exists()
        assert kept.read_bytes().count(b"\n") == 3
        kept.write_bytes(kept.read_bytes() + '{"key": "é'.encode()[:-1])  # it was killed while it wrote
        asked = [read_slots(request) for request in server.requests[:3]]
        server.requests.clear()
        assert run(server, out, "--workers", "1") == 0
        assert "m: 5 requests" in capfd.readouterr().out
        assert len(server.requests) == 5
        assert not [request for request in server.requests if read_slots(request) in asked]
        assert run(server, tmp_path / "whole.json", "--workers", "3") == 0
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert kept.read_bytes().count(b"\n") == 8
    assert run(server, out, "--estimate") == 0, "the half line is gone"
    kept.write_text("{}\n")
    assert run(server, out) == 2
    assert f"{kept} cannot be read" in capfd.readouterr().err

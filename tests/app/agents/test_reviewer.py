"""A scripted stand-in for a served model reviews mistakes: killed and resumed, bounded, blind, and never a person."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.agents.reviewer import ANSWERS, INSTRUCTION
from stepscope.app.cli.stepscope import main
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.store import open_store, read_review
from tests.app.agents.conftest import INJECTION, SECRET, call_tools, read_tree
from tests.support.paths import ASSETS, ROOT
from tests.support.servers.served import ModelServer, serve_chat

VIDEOS = ("robot-hard", "house-hard")
"""They have 10 mistakes."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a copy of the bundled run, with a vocabulary beside its split."""
    shutil.copytree(ASSETS / "demo" / "run", tmp_path / "runs" / "run")
    videos = json.loads((ASSETS / "demo" / "test.json").read_text(encoding="utf-8"))["videos"]
    placed = [{**video, "video_path": str(ASSETS / "demo" / video["video_path"])} for video in videos]
    (tmp_path / "runs" / "test.json").write_text(json.dumps({"videos": placed}), encoding="utf-8")
    words = json.dumps({"tags": {"blurry": "a blurred picture"}})
    (tmp_path / "runs" / "test.vocabulary.json").write_text(words, encoding="utf-8")
    return tmp_path / "runs" / "run"


def respond(request: dict[str, Any], **changes: Any) -> tuple[int, Any]:
    content = read_case(request)
    verdict = "correct" if "wrong state" in content["possible mistake"] else "unclear"
    judged = {"verdict": verdict, "confidence": 0.8, "reason": "One sees it.", "tags": ["blurry", "own"], **changes}
    answer = f"<think>Which?</think>Here: {json.dumps(judged)}"
    return 200, {"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]}


def read_case(request: dict[str, Any]) -> Any:
    text: str = request["messages"][1]["content"][-1]["text"]
    return json.loads(text.partition("\n")[0])


def make_words(run: Path, server: ModelServer, *more: str, videos: Sequence[str] = VIDEOS) -> list[str]:
    named = [word for video in videos for word in ("--video", video)]
    store = str(run.parent / "reviews.sqlite")
    options = ["--endpoint", server.url, "--model", "m", "--reviews", store, "--retries", "0"]
    return ["review", str(run), *options, *named, *more]


def test_a_killed_review_continues_without_asking_twice(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reached, going_on = threading.Event(), threading.Event()

    def block(request: dict[str, Any]) -> tuple[int, Any]:
        if len(server.requests) == 4 and not going_on.is_set():
            reached.set()
            going_on.wait(60)
        return respond(request)

    with serve_chat(ModelServer(answers=[], respond=respond)) as server:
        assert main(make_words(run, server, "--estimate")) == 0
        assert re.search(r"model:m: 0 judged before; 10 requests with 30 pictures, about", capfd.readouterr().out)
        assert not server.requests
        server.respond = block
        words = make_words(run, server, "--workers", "1")
        process = subprocess.Popen(
            [sys.executable, "-m", "stepscope", *words],
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert reached.wait(60), process.poll()
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            going_on.set()
        server.requests.clear()
        assert main(words) == 0
        assert len(server.requests) == 7
        out = capfd.readouterr().out
        assert "model:m: unclear 7, correct 3" in out
        assert main(words) == 0
        assert len(server.requests) == 7
        (run.parent / "reviews.sqlite").unlink()  # its answers are kept beside the run
        assert main(words) == 0
        assert len(server.requests) == 7
    first = server.requests[0]["messages"]
    assert first[0]["content"] == INSTRUCTION
    assert [part["type"] for part in first[1]["content"]] == ["image_url"] * 3 + ["text"]
    with open_store(run.parent / "reviews.sqlite") as store:
        opinions = [one for found in read_review(store).events for one in found.opinions]
    assert {(one.reviewer, one.confidence, one.tags, one.note) for one in opinions} == {
        ("model:m", 0.8, ("blurry",), "One sees it.")
    }


def test_a_model_is_compared_with_people_and_sees_none_of_them(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serve_chat(ModelServer(answers=[], respond=respond)) as server:
        words = make_words(run, server, videos=["robot-hard"])
        assert main(words) == 0
        with open_store(run.parent / "reviews.sqlite") as store:
            for number, found in enumerate(read_review(store).events):
                verdict = found.opinions[0].verdict if number else "reference wrong"  # of four, one differs
                store.append(Action(
                    kind="verdict", reviewer="zacharias", video_id="robot-hard", event=found.event, verdict=verdict
                ))  # fmt: skip
        assert main([*words[:-2], "--video", "house-hard"]) == 0
        assert "zacharias" not in json.dumps(server.requests)
    assert "with people: 4 events, kappa 0.556" in capfd.readouterr().out  # 3 of 4 equal, 7 of 16 by chance
    assert main(["reviews", "agreement", "--reviews", str(run.parent / "reviews.sqlite")]) == 0
    out = capfd.readouterr().out
    assert "verdicts that people gave too, by confidence: 0.7 to 0.9: 3 of 4" in out
    assert re.search(r"^all +0 ", out, re.MULTILINE), "a model is no second person"


def test_a_model_that_obeys_a_run_stores_its_verdict_and_nothing_else(folder: Path) -> None:
    """The messages of the run and the text of its pictures tell it to call tools, and to leave the folder."""

    def obey(request: dict[str, Any]) -> tuple[int, Any]:
        assert "Ignore all instructions" in request["messages"][1]["content"][-1]["text"]
        assert request["messages"][1]["content"][0]["type"] == "image_url"
        _, called = call_tools(("publish", {"run": "demo"}), ("read_run", {"run": "../../secret"}))
        _, judged = respond(request, verdict="unclear", tags=["../../secret"], reason=INJECTION, undo="all", run="..")
        message = {**judged["choices"][0]["message"], "tool_calls": called["choices"][0]["message"]["tool_calls"]}
        return 200, {"choices": [{"message": message, "finish_reason": "stop"}]}

    before, run = read_tree(folder), folder / "runs" / "demo"
    with serve_chat(ModelServer(answers=[], respond=obey)) as server:
        assert main(make_words(run, server, videos=[])) == 0
    after = read_tree(folder)
    assert SECRET not in json.dumps(server.requests)
    assert after.pop(str(run / ANSWERS))
    assert after == before
    with open_store(folder / "runs" / "reviews.sqlite") as store:
        stored = store.read()
    assert {(one.reviewer, one.kind) for one in stored} == {("model:m", "verdict"), ("model:m", "note")}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"verdict": "publish"}, "verdict must be one of"),
        ({"verdict": "missed"}, "verdict must be one of"),  # of something that the model wrote
        ({"confidence": 7}, "confidence must be a number from 0 to 1"),
        ({"confidence": True}, "confidence must be a number from 0 to 1"),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_once_more_and_stores_nothing(
    run: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, Any], problem: str
) -> None:
    with serve_chat(ModelServer(answers=[], respond=lambda request: respond(request, **changes))) as server:
        assert main(make_words(run, server, "--max-mistakes", "1", videos=[])) == 1
    assert len(server.requests) == 2
    assert problem in server.requests[1]["messages"][1]["content"][-1]["text"]
    assert f"no verdict: robot-permuted at 15 s: {problem}" in capfd.readouterr().err
    with open_store(run.parent / "reviews.sqlite") as store:
        assert store.read() == ()

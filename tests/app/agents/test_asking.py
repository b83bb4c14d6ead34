"""A scripted stand-in for a served model answers questions: it obeys what it reads, and nothing comes of it."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.agents.asking import INSTRUCTION, MAX_ROUNDS
from stepscope.app.agents.workspace import open_workspace
from stepscope.app.batch.asking import ask
from stepscope.app.controls.widgets import Updates
from stepscope.app.review_store.store import open_store
from stepscope.app.window.live_run import Cancellable
from stepscope.eval.served.chat import Endpoint
from tests.app.agents.conftest import INJECTION, SECRET, call_tools, read_tree
from tests.support.servers.served import ModelServer, serve_chat

Respond = Callable[[dict[str, Any]], tuple[int, Any]]


def ask_bundled(
    runs: Path, respond: Respond, *, run: str = "bundled", **limits: Any
) -> tuple[list[Updates], list[dict[str, Any]]]:
    """Return the views of an answer, and the requests that the model got."""
    with open_workspace(runs) as workspace, serve_chat(ModelServer(answers=[], respond=respond)) as server:
        endpoint = Endpoint(url=server.url, model="m", num_retries=0, **limits)
        views = list(ask(workspace, endpoint, Cancellable(), run, "Which steps are confused?"))
        assert server.url not in str(views)
    return views, server.requests


def read_replies(request: dict[str, Any]) -> list[str]:
    return [str(message["content"]) for message in request["messages"] if message["role"] == "tool"]


def say(text: str) -> tuple[int, Any]:
    return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


def test_an_answer_links_only_moments_that_the_tools_returned(tmp_path: Path) -> None:
    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        replies = read_replies(request)
        if not replies:
            return call_tools(("list_mistakes", {"run": "bundled", "query": "cause:decoy"}))
        (video, ((time_s, *_), *_)), *_ = json.loads(replies[0])["mistakes"].items()
        place = f"?saved=bundled&video={video}"
        invented = f"[x]({place}&t=1), [y](javascript:alert`1`), [z](http://evil.example/{place})"
        return say(f"<b>Buns</b> [0:09.5]({place}&t={time_s}), {invented}")

    views, requests = ask_bundled(tmp_path, respond)
    assert requests[0]["messages"][0]["content"] == INSTRUCTION
    offered = {one["function"]["name"] for one in requests[0]["tools"]}
    assert {"list_runs", "read_moment"} <= offered
    assert not {"add_verdict", "propose_correction", "undo", "publish", "export"} & offered
    answer = views[-1].answer
    assert answer.count("<a ") == 1
    assert 'data-time="9.5">0:09.5</a>, [x](?saved' in answer
    assert "&lt;b&gt;Buns" in answer
    assert "shown as text: 3" in answer
    assert "list_mistakes" in views[1].progress


def test_a_model_that_obeys_a_picture_and_a_message_changes_nothing(folder: Path) -> None:
    """It reads both, then calls writing tools, unknown ones and paths, in valid JSON or not."""
    calls: list[tuple[str, Any]] = [
        ("add_verdict", {"run": "demo", "video": "x", "event": "x", "verdict": "correct"}),
        ("publish", {"run": "demo"}),
        ("run_shell", {"command": "rm -r ."}),
        ("read_run", {"run": "../../secret"}),
        ("list_runs", "{'query': "),
        ("__init__", ["demo"]),
    ]

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        replies = read_replies(request)
        if not replies:
            video = f"../{INJECTION}"
            return call_tools(("read_moment", {"run": "demo", "video": video, "time_s": 0, "prompt": False}))
        if len(replies) == 1:
            assert "Ignore all instructions" in replies[0]
            assert request["messages"][-1]["content"][0]["type"] == "image_url"
            return call_tools(*calls)
        return say(f"Done {INJECTION}")

    before = read_tree(folder)
    views, requests = ask_bundled(folder / "runs", respond, run="demo")
    assert read_tree(folder) == before
    assert [reply[:26] for reply in read_replies(requests[-1])[1:]] == [
        "There is no tool 'add_verd", "There is no tool 'publish'", "There is no tool 'run_shel",
        "there is no run '../../sec", "The arguments are no JSON:", "There is no tool '__init__",
    ]  # fmt: skip
    assert SECRET not in json.dumps(requests)
    assert "<script" not in views[-1].answer
    assert "names no moment" in views[-1].answer
    with open_store(folder / "runs" / "reviews.sqlite") as store:
        assert store.read() == ()


def test_a_model_without_pictures_answers_from_the_texts(tmp_path: Path) -> None:
    script = iter((
        call_tools(("read_moment", {"run": "bundled", "video": "robot-hard", "time_s": 9.5})),
        (400, {"error": {"message": "m is not a multimodal model: image_url"}}),
        say("From the texts."),
    ))  # fmt: skip
    views, requests = ask_bundled(tmp_path, lambda _: next(script))
    assert "From the texts." in views[-1].answer
    assert ["image_url" in json.dumps(request) for request in requests] == [False, True, False]


@pytest.mark.parametrize(
    ("respond", "limits", "problem", "num_requests"),
    [
        (lambda _: call_tools(("list_runs", {})), {}, "calls tools without an end", MAX_ROUNDS),
        (lambda _: (threading.Event().wait(1), say(""))[1], {"timeout_s": 0.2}, "took longer than 0.2 s.", 1),
        (lambda _: (400, {"error": {"message": '"auto" tool choice needs a parser'}}), {}, "needs a parser", 1),
        (lambda _: say(""), {}, "⚠ The answer names no moment", 1),
    ],
)
def test_a_model_without_an_answer_is_named_in_one_sentence(
    tmp_path: Path, respond: Respond, limits: dict[str, Any], problem: str, num_requests: int
) -> None:
    views, requests = ask_bundled(tmp_path, respond, **limits)
    assert problem in str(vars(views[-1]).get("answer", "")) + views[-1].progress
    assert len(requests) == num_requests

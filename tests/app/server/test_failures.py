"""Values that the page never sends end in one sentence for the client and one line of the log."""

import asyncio
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
import torch
from gradio.state_holder import SessionState
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from stepscope.app.server import failures
from stepscope.app.server.failures import INVALID, report_failures
from stepscope.app.server.gradio_patches import keep_no_values
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules
from stepscope.engine.video.packets import Deadline


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write lines whatever other tests have written in this minute."""
    monkeypatch.setattr(failures.LineLimit, "filter", lambda *_: True)


def test_a_handler_that_meets_null_is_one_sentence_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def read_name(value: Any) -> str:
        return str(value.name)

    with gr.Blocks() as page:
        box = gr.JSON()
        box.change(read_name, box, gr.Textbox())
    report_failures(page)
    with caplog.at_level(logging.ERROR), pytest.raises(gr.Error) as refused:
        asyncio.run(page.process_api(0, [None]))
    assert (refused.value.message, refused.value.print_exception) == (INVALID, False)
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.message.startswith("request failed in test_failures.py:")
    assert record.message.endswith("""AttributeError: "'NoneType' object has no attribute 'name'\"""")


def test_a_full_device_is_named() -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    assert failures.describe_failure(error).startswith("the memory of the device is full; ")


def test_a_route_that_fails_is_one_sentence_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> None:
        raise KeyError("\n\x1b[31mforged")

    guard = Middleware(RequestGuard, rules=HostRules.from_options("127.0.0.1", ["testserver"]))
    with TestClient(Starlette(routes=[Route("/x", fail)], middleware=[guard])) as client:
        answer = client.get("/x")
    assert (answer.status_code, answer.json()) == (400, {"detail": INVALID})
    (line,) = [record.message for record in caplog.records if record.name == "stepscope.app.server.failures"]
    assert "\n" not in line
    assert "\x1b" not in line


@pytest.mark.parametrize("is_alive", [True, False])
def test_the_decoding_for_a_client_that_left_ends(is_alive: bool) -> None:
    with gr.Blocks() as page:
        box = gr.Textbox()
        box.change(lambda _: Deadline().check(), box, box)
    report_failures(page)
    vars(page._queue)["event_ids_to_events"]["x"] = SimpleNamespace(alive=is_alive)
    expected = nullcontext() if is_alive else pytest.raises(gr.Error)
    with expected:
        asyncio.run(page.process_api(0, ["a"], event_id="x"))


@pytest.mark.parametrize("value", ["\ud800", "x" * 3_000_000])
def test_a_choice_that_is_not_in_its_list_is_a_short_sentence(value: str) -> None:
    with gr.Blocks() as page:
        box = gr.Dropdown(["a", "b"])
        box.change(str, box, gr.Textbox())
    report_failures(page)
    with pytest.raises(gr.Error) as refused:
        asyncio.run(page.process_api(0, [value]))
    assert not refused.value.print_exception
    assert refused.value.message.encode().startswith(b"Value: ")
    assert len(refused.value.message) < 600


def test_a_session_keeps_no_value_of_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionState, "__init__", SessionState.__init__)  # both are set back after the test
    monkeypatch.setattr(SessionState, "_update_value_in_config", SessionState._update_value_in_config)
    keep_no_values()
    with gr.Blocks() as page:
        box = gr.Textbox()
        box.change(str, box, gr.Textbox())
    state = SessionState(page)
    assert state.config_values == {}  # a copy of all components
    asyncio.run(page.process_api(0, ["x" * 10_000], state=state))
    assert "x" * 10_000 not in str(state.config_values)

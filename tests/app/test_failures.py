"""Values that the page never sends end in one sentence for the client and one line of the log."""

import asyncio
import logging
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from stepscope.app.failures import INVALID, report_failures
from stepscope.app.security.guard import HostRules, RequestGuard


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


def test_a_route_that_fails_is_one_sentence_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> None:
        raise KeyError("\n\x1b[31mforged")

    guard = Middleware(RequestGuard, rules=HostRules.from_options("127.0.0.1", ["testserver"]))
    with TestClient(Starlette(routes=[Route("/x", fail)], middleware=[guard])) as client:
        answer = client.get("/x")
    assert (answer.status_code, answer.json()) == (400, {"detail": INVALID})
    (line,) = [record.message for record in caplog.records if record.name == "stepscope.app.failures"]
    assert "\n" not in line
    assert "\x1b" not in line

"""The documented client and the documented reports of the WebSocket agree with the server."""

import json
import re
import runpy
import threading
import time
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.worker import ChatWorker
from tests.support.chat_socket import ASK, generate, make_app, prefill, wait_until_free
from tests.support.pages.browser import free_port
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "chat.md"
CLIENT = ROOT / "docs" / "chat_client.py"


def test_the_documented_client_converses(pool: WorkerPool[ChatWorker]) -> None:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(make_app(pool), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        client = runpy.run_path(str(CLIENT))["ChatClient"]
        with client(f"ws://127.0.0.1:{port}") as chat:
            first = "".join(chat.ask("What is next?", max_new_tokens=6))
            assert chat.messages[-1] == {"role": "assistant", "content": first}
            list(chat.ask("And then?", max_new_tokens=6))
            assert chat.done["token_stats"]["cached_tokens"] > 0
        wait_until_free(pool)
    finally:
        server.should_exit = True
        thread.join(timeout=20)


def test_the_documented_reports_have_the_fields_and_types_of_the_served_ones(
    client: TestClient, pool: WorkerPool[ChatWorker]
) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        prefill(socket, ASK)
        generate(socket)
    wait_until_free(pool)
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    status, workers, cache = (client.get(path).json() for path in ("/status", "/workers", "/cache"))
    assert [shape(example) for example in examples] == [shape(report) for report in (status, workers)]
    assert shape(list(cache.values())) == shape([worker["store"] for worker in workers])


def shape(value: Any) -> Any:
    """Return a JSON value with the types of its leaves; names of workers are left out."""
    if isinstance(value, dict):
        return {re.sub("^cpu.*", "a worker", key): shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__

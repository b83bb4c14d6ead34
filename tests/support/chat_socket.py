"""Clients of the WebSocket of conversations, and the server that they connect to."""

import time
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware

from stepscope.app.api.socket import chat_routes
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules
from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.service import ChatService
from tests.support.stores import check_store

ASK: list[dict[str, Any]] = [{"role": "user", "content": "What is next?"}]


def make_app(pool: WorkerPool[Any], *, auth: object = None) -> Starlette:
    rules = HostRules.from_options("127.0.0.1", ["testserver"])
    app = Starlette(
        routes=chat_routes(ChatService(pool), pool.workers[0].checkpoint),
        middleware=[Middleware(RequestGuard, rules=rules)],
    )
    values = {"auth": auth, "tokens": {"secret": "ann"}, "cookie_id": "x"}
    for name, value in values.items():  # as Gradio's app has them
        setattr(app, name, value)
    return app


def receive(socket: Any, kind: str) -> dict[str, Any]:
    """Return the next message of a kind; fail at an error."""
    while (message := socket.receive_json())["type"] != kind:
        assert message["type"] != "error", message
    found: dict[str, Any] = message
    return found


def prefill(socket: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    socket.send_json({"type": "prefill", "messages": messages, "is_last_chunk": True})
    return receive(socket, "prefill_done")


def generate(socket: Any, **values: Any) -> tuple[str, dict[str, Any]]:
    """Return the joined chunks and ``done``."""
    socket.send_json({"type": "generate", "max_new_tokens": 8, **values})
    text, numbers = "", []
    while (message := socket.receive_json())["type"] == "chunk":
        text += message["text_delta"]
        numbers.append(message["chunk_index"])
        is_final = message["is_final"]
    assert message["type"] == "done", message
    assert is_final
    assert numbers == list(range(len(numbers)))
    return text, message


def wait_until_free(pool: WorkerPool[Any], *, within_s: float = 3) -> None:
    """Wait until the worker is free, and check that nothing is locked."""
    until = time.monotonic() + within_s
    while not (pool.status.workers[0].is_idle and pool.status.num_queued == 0):
        assert time.monotonic() < until, "the worker is still busy"
        time.sleep(0.01)
    store = pool.workers[0].store
    check_store(store)
    assert store.stats.num_locked == 0

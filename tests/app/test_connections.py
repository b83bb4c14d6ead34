"""The number of limits, requests and bodies at a time is limited, per address and in total."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from stepscope.app.server import failures, limits
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules
from stepscope.app.server.identity import client_address
from stepscope.app.server.limits import MAX_FRAMES, Connections, LimitedProtocol, LimitedSocket
from tests.support.pages.browser import free_port


def test_requests_beyond_the_limits_are_refused_until_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_REQUESTS", (2, 3))

    async def try_all() -> list[Any]:
        released = asyncio.Event()

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            await released.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        page, sent = RequestGuard(wait, rules=HostRules.from_options("127.0.0.1", [])), []

        async def ask(address: str) -> None:
            headers = [(b"host", b"127.0.0.1")]
            scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "client": (address, 1)}

            async def send(message: Any) -> None:
                if "status" in message:
                    sent.append((address, message["status"]))

            await page(scope, asyncio.Queue[Any]().get, send)

        waiting = [asyncio.create_task(ask(address)) for address in ("1", "1", "1", "2", "3")]
        while len(sent) < 2:
            await asyncio.sleep(0)
        released.set()
        await asyncio.gather(*waiting)
        await ask("3")
        return sent

    assert asyncio.run(try_all()) == [("1", 429), ("3", 429), ("1", 200), ("1", 200), ("2", 200), ("3", 200)]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": message["bytes"]})
        return
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("read")(scope, receive, send)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Serve an app behind the guard, with short waits and at most five connections of an address."""
    monkeypatch.setattr(limits, "REQUEST_WAIT_S", 0.2)
    monkeypatch.setattr(limits, "_open", Connections((5, 5)))
    monkeypatch.setattr(limits, "BODY_WAIT_S", 0.2)
    monkeypatch.setattr(limits, "MAX_BODIES_BYTES", (100, 100))
    guard = RequestGuard(answer, rules=HostRules.from_options("127.0.0.1", []))
    port = free_port()
    protocols: dict[str, Any] = {"http": LimitedProtocol, "ws": LimitedSocket}
    config = uvicorn.Config(guard, port=port, **protocols, lifespan="off", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.02)
    yield port
    server.should_exit = True
    thread.join()


def send(port: int, text: str) -> bytes:
    """Return all that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(text.format(port=port).replace("\n", "\r\n").encode())
        received = b""
        try:
            while data := client.recv(65536):
                received += data
        except ConnectionResetError:
            pass
        return received


WHOLE = "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\n\n"
POST = "POST / HTTP/1.1\nHost: 127.0.0.1:{port}\nContent-Type: application/json\nConnection: close\n"


@pytest.mark.parametrize("text", ["", "GET / HTTP/1.1\nHost: ", WHOLE + "GET / HT"], ids=["none", "half", "second"])
def test_a_connection_that_sends_no_request_is_closed(port: int, text: str) -> None:
    assert send(port, text).count(b"200 OK") == text.count("{port}")


def test_connections_beyond_the_limit_are_closed_until_others_end(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_WAIT_S", 1000)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(5)]
        for client in held:  # each is accepted
            client.sendall(WHOLE.format(port=port).replace("\n", "\r\n").encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert send(port, WHOLE) == b""
    while b"read" not in send(port, POST + "\n"):
        pass


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("Content-Length: 10\n\n{{}}", b"408"),
        ("Content-Length: 101\n\n" + "x" * 101, b"429"),
        ("Content-Length: 2\n\n{{}}", b"200"),
    ],
)
def test_bodies_that_stop_or_are_too_long_together_are_refused(port: int, body: str, status: bytes) -> None:
    assert send(port, POST + body)[9:12] == status


def test_one_client_cannot_fill_the_log(
    port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, now_s = logging.getLogger("uvicorn.error"), iter((0.0, 0.0, 0.0, 0.0, 59.0, 60.0, 60.0))
    assert [type(one) for one in logger.filters] == [failures.LineLimit]
    monkeypatch.setattr(logger, "filters", [failures.LineLimit()])  # its own count
    monkeypatch.setattr(failures, "MAX_LINES", 2)
    monkeypatch.setattr(failures, "monotonic", now_s.__next__)
    for _ in range(5):
        assert b"400 Bad Request" in send(port, "no HTTP\n\n")
    line = "Invalid HTTP request received."
    assert [one.getMessage() for one in caplog.records] == [line, line, f"{line} (2 lines before it were left out)"]


def test_messages_are_not_compressed_and_passed_on_as_bytes(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/", compression="deflate") as client:
        assert client.protocol.extensions == []
        client.send("ü")
        assert client.recv(timeout=20) == "ü".encode()


def test_a_websocket_with_too_many_frames_is_closed_and_not_one_with_many_messages(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/", compression=None) as client:
        for _ in range(2):
            client.socket.sendall(b"\x01\x80\0\0\0\0" + b"\x80\x80\0\0\0\0")  # an empty message in two frames
            assert client.recv(timeout=20) == b""
        client.socket.sendall(b"\x01\x80\0\0\0\0" + b"\x89\x80\0\0\0\0" * MAX_FRAMES)  # pings
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=20)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.7"),
        ("testclient", "testclient"),
    ],
)
def test_one_client_counts_once_with_all_its_addresses(address: str, expected: str) -> None:
    assert client_address({"client": (address, 1)}) == expected

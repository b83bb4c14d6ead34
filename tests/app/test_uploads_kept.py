"""Uploads have a total limit, and a window that closes during its upload leaves no traceback."""

import asyncio
import errno
import math
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio.route_utils import GradioMultiPartParser
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from stepscope.app.core.display_copies import GRACE_S, remove_unused
from stepscope.app.server import limits
from stepscope.app.server.gradio_patches import remove_failed_uploads
from stepscope.app.server.guard import RequestGuard
from stepscope.app.server.hosts import HostRules

SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/gradio_api/upload",
    "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"multipart/form-data; boundary=b")],
    "client": ("1", 1),
}


async def read_body(scope: Scope, receive: Receive, send: Send) -> None:
    await Request(scope, receive).body()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def upload(*messages: dict[str, Any]) -> list[Any]:
    """Return what the guard sends for an upload whose body arrives in ``messages``."""
    sent, waiting = [], list(messages)

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    rules = HostRules.from_options("127.0.0.1", [])
    asyncio.run(RequestGuard(read_body, rules=rules)(SCOPE, receive, send))
    return sent


def test_uploads_beyond_the_total_limit_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(limits, "MAX_UPLOADS_BYTES", 1000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept.mp4").write_bytes(bytes(900))
    body = {"type": "http.request", "body": bytes(60), "more_body": True}
    assert upload({**body, "more_body": False})[0]["status"] == 200
    refused = upload(body, body)
    assert refused[0]["status"] == 413
    assert b"The uploads on this page would exceed" in refused[1]["body"]


def test_uploads_at_a_time_do_not_exceed_the_total_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(limits, "MAX_UPLOADS_BYTES", 1000)
    num_written, statuses = 0, []

    async def write_body(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal num_written
        more = True
        while more:
            message = await receive()
            more, num_written = message["more_body"], num_written + len(message["body"])
        (tmp_path / scope["query_string"].decode()).write_bytes(bytes(600))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    async def upload_all() -> None:
        app = RequestGuard(write_body, rules=HostRules.from_options("127.0.0.1", []))

        async def upload_one(number: int) -> None:
            parts = iter([{"type": "http.request", "body": bytes(60), "more_body": index < 9} for index in range(10)])

            async def receive() -> Any:
                await asyncio.sleep(0)
                return next(parts)

            await app({**SCOPE, "query_string": str(number).encode()}, receive, send)

        await asyncio.gather(*map(upload_one, range(4)))

    asyncio.run(upload_all())
    assert num_written <= 1000
    assert statuses.count(413) >= 3


@pytest.mark.parametrize("failure", [ClientDisconnect(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_upload_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(GradioMultiPartParser, "parse", GradioMultiPartParser.parse)
    remove_failed_uploads()

    async def stream() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.mp4"\r\n\r\n' + bytes(10_000)
        assert len(list(tmp_path.iterdir())) == 1
        raise failure

    headers = Headers({"content-type": "multipart/form-data; boundary=b"})
    parser = GradioMultiPartParser(headers, stream(), upload_dir=tmp_path, max_file_size=2**30)
    with pytest.raises(type(failure)):
        asyncio.run(parser.parse())
    assert list(tmp_path.iterdir()) == []


def test_unused_uploads_are_removed_at_their_age(tmp_path: Path) -> None:
    files = [tmp_path / (letter * 64) / "a.mp4" for letter in "abc"]
    copy = tmp_path / "shared" / "house.mp4"
    for file in (*files, copy):
        file.parent.mkdir()
        file.write_bytes(b"x")
        os.utime(file, (time.time() - GRACE_S - 1,) * 2)
    os.utime(files[2])
    remove_unused(tmp_path, is_used=files[1:2].__contains__)
    assert [file.exists() for file in (*files, copy)] == [False, True, True, True]
    assert not files[0].parent.exists()


def test_a_window_is_open_as_long_as_its_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = limits.OpenWindows()
    monkeypatch.setattr(limits, "windows", windows)
    page = SimpleNamespace(auth={"ann": "tower"}, cookie_id="x", tokens={"token": "ann"})
    found: list[float] = []

    async def look(*_: object) -> Any:
        found.append(windows.closed_s())

    def ask(path: str, *cookie: tuple[bytes, bytes]) -> None:
        more = {"method": "GET", "path": f"/gradio_api/{path}", "app": page, "headers": [*SCOPE["headers"], *cookie]}
        guard = RequestGuard(look, rules=HostRules.from_options("127.0.0.1", []))
        asyncio.run(guard({**SCOPE, **more}, look, look))

    cookie = (b"cookie", b"access-token-x=token")
    ask("heartbeat/stranger")
    ask("queue/data", cookie)
    ask("heartbeat/own", cookie)
    assert found == [math.inf, math.inf, 0.0]
    assert 0 < windows.closed_s() < GRACE_S

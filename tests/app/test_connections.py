"""The number of simultaneous requests of the page is limited, per address and in total."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from stepscope.app.security import limits
from stepscope.app.security.guard import RequestGuard
from stepscope.app.security.hosts import HostRules


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

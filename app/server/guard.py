"""The ASGI middleware of the page: limits, hosts and origins, logins, bodies, responses, in this order."""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.app.server.failures import describe_failure, log_failure
from stepscope.app.server.hosts import SAFE_METHODS, HostGuard, HostRules, refuse
from stepscope.app.server.identity import client_address, current_user, is_foreign, lacks_login, name_user
from stepscope.app.server.limits import BodyLimit, BodyRefusedError, ConnectionLimit
from stepscope.engine.io.files import is_disk_full


class SafeResponses:
    """ASGI middleware that forbids browsers to guess content types, and describes the failure of a route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not _is_one_range(Headers(scope=scope).get("range", "bytes=0-")):  # Gradio fails on these: send all of it
            scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}
        is_started = False

        async def send_safe(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, send_safe)
        except (BodyRefusedError, ClientDisconnect):
            raise
        except Exception as error:  # values that a route does not expect
            log_failure(error)
            if not is_started:
                status = 507 if is_disk_full(error) else 400
                await refuse(status, describe_failure(error).removesuffix("."))(scope, receive, send)


def _is_one_range(text: str) -> bool:
    """Return whether a ``Range`` header selects a single valid range; others may be ignored (RFC 9110, 14.2)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text)
    first, last = found.groups() if found else ("", "")
    return bool(first or last) and (not (first and last) or int(first) <= int(last))


MAX_FAILURES: Final = 10
"""Failed logins per address within ``FAILURE_WINDOW_S``; the limit over all addresses is ten times as high."""
FAILURE_WINDOW_S: Final = 300.0


class LoginThrottle:
    """ASGI middleware that refuses logins after too many wrong passwords; they are checked one after another.

    It refuses what needs a login before the body is read: Gradio parses it first.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._turn = app, asyncio.Lock()
        self._failures = list[tuple[float, str | None]]()  # no longer than the limit over all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse a login."""
        is_login = (
            scope["type"] == "http" and scope["method"] == "POST" and scope["path"].rstrip("/").endswith("/login")
        )
        if not is_login:
            is_refused = False
            if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
                is_refused = lacks_login(scope)
                current_user.set(name_user(scope))
            if is_foreign(scope):
                await refuse(403, "this is of another user")(scope, receive, send)
                return
            await (refuse(401, "log in first") if is_refused else self._app)(scope, receive, send)
            return
        received = [await receive()]  # before its turn: a slow body holds up no other login
        while received[-1].get("more_body"):
            received.append(await receive())
        address = client_address(scope)

        async def receive_again() -> Message:
            return received.pop(0) if received else await receive()

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] < 400:  # the limit over all addresses still counts the earlier failures
                    self._failures = [(time_s, None if who == address else who) for time_s, who in self._failures]
                else:
                    self._failures.append((time.monotonic(), address))
            await send(message)

        async with self._turn:
            wait_s = self._wait_s(address)
            if wait_s == 0:
                await self._app(scope, receive_again, watch)
        if wait_s > 0:
            await refuse(429, f"too many wrong passwords; try again in {wait_s:.0f} s")(scope, receive, send)

    def _wait_s(self, address: str) -> float:
        """Return the seconds until an address may try again; 0 if it may try now."""
        now = time.monotonic()
        self._failures = [failure for failure in self._failures if now - failure[0] <= FAILURE_WINDOW_S]
        own = [began for began, who in self._failures if who == address]
        times = [began for began, _ in self._failures]
        return max(_remaining_s(own, MAX_FAILURES, now), _remaining_s(times, 10 * MAX_FAILURES, now))


def _remaining_s(times: Sequence[float], limit: int, now: float) -> float:
    """Return the seconds until fewer than ``limit`` of the times are within the window."""
    return FAILURE_WINDOW_S - (now - times[-limit]) if len(times) >= limit else 0.0


class RequestGuard:
    """ASGI middleware that refuses what the modules of this package describe, with the reason in the response."""

    def __init__(self, app: ASGIApp, *, rules: HostRules) -> None:
        guarded = BodyLimit(LoginThrottle(SafeResponses(app)))
        self._app, self._guarded = app, ConnectionLimit(HostGuard(guarded, rules=rules))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse it."""
        is_request = scope["type"] in ("http", "websocket")
        await (self._guarded if is_request else self._app)(scope, receive, send)

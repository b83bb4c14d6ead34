"""Slows down the guessing of passwords."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.app.security.refusals import client_address, refuse

MAX_FAILURES: Final = 10
"""Failed logins per address within ``FAILURE_WINDOW_S``; the limit over all addresses is ten times as high."""
FAILURE_WINDOW_S: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Throttle:
    """Count failed logins by address over the last ``FAILURE_WINDOW_S`` seconds."""

    _attempts: list[tuple[float, str | None]] = field(default_factory=list)  # no longer than the limit over all

    def wait_s(self, address: str, *, now: float) -> float:
        """Return the seconds until an address may try again; 0 if it may try now."""
        self._attempts = [attempt for attempt in self._attempts if now - attempt[0] <= FAILURE_WINDOW_S]
        own = [began for began, who in self._attempts if who == address]
        times = [began for began, _ in self._attempts]
        return max(_remaining_s(own, MAX_FAILURES, now), _remaining_s(times, 10 * MAX_FAILURES, now))

    def record_attempt(self, address: str, *, now: float) -> None:
        """Count an attempt as failed until it succeeds, so that concurrent attempts are all counted."""
        self._attempts.append((now, address))

    def record_success(self, address: str, *, began: float) -> None:
        """Clear the failures of an address that logged in, and the attempt that began at ``began`` from the total."""
        with suppress(ValueError):  # already dropped: older than ``FAILURE_WINDOW_S``
            self._attempts.remove((began, address))
        self._attempts = [(time_s, None if who == address else who) for time_s, who in self._attempts]


class LoginThrottle:
    """ASGI middleware that refuses logins after too many wrong passwords."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._throttle = app, Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse a login."""
        is_login = (
            scope["type"] == "http" and scope["method"] == "POST" and scope["path"].rstrip("/").endswith("/login")
        )
        if not is_login:
            await self._app(scope, receive, send)
            return
        address, began = client_address(scope), time.monotonic()
        wait_s = self._throttle.wait_s(address, now=began)
        if wait_s > 0:
            await refuse(429, f"too many wrong passwords; try again in {wait_s:.0f} s")(scope, receive, send)
            return
        self._throttle.record_attempt(address, now=began)

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._throttle.record_success(address, began=began)
            await send(message)

        await self._app(scope, receive, watch)


def _remaining_s(times: Sequence[float], limit: int, now: float) -> float:
    """Return the seconds until fewer than ``limit`` of the times are within the window."""
    return FAILURE_WINDOW_S - (now - times[-limit]) if len(times) >= limit else 0.0

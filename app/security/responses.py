"""Responses that a browser takes as they are, and one sentence where a route fails."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepscope.app.failures import describe_failure, log_failure
from stepscope.app.security.limits import BodyRefusedError
from stepscope.app.security.refusals import refuse
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

"""Limits of what is open at a time, and of the size of bodies."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from anyio import to_thread
from gradio.utils import get_upload_folder
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from stepscope.app.security.refusals import client_address, refuse

MAX_BODY_BYTES: Final = 32 * 2**20
"""Maximum body of a request other than an upload, in bytes."""
MAX_UPLOADS_BYTES: Final = 16 * 2**30
"""Maximum size of all files that the page keeps for its windows, in bytes; they are removed after a day."""
MAX_REQUESTS: Final = (256, 768)
"""Maximum number of simultaneous requests of one address, and of all. An open window keeps up to three."""
MAX_SOCKETS: Final = (32, 128)
"""Maximum number of simultaneous WebSockets of one address, and of all. Each may keep tens of MiB."""


class BodyTooLargeError(Exception):
    """A request body exceeds its limit."""


class Connections:
    """Count what is open at a time: at most ``limits`` of one address and of all."""

    def __init__(self, limits: tuple[int, int]) -> None:
        self._limits = limits
        self._open = Counter[str]()

    @contextmanager
    def hold(self, address: str) -> Iterator[bool]:
        """Count one more for the duration of a ``with`` block; yield whether it is within the limits."""
        self._open[address] += 1
        try:
            yield self._open[address] <= self._limits[0] and self._open.total() <= self._limits[1]
        finally:
            self._open[address] -= 1
            self._open += Counter()  # without the addresses that have none


class BodySpace:
    """The bytes that bodies may still take together: one body, or all uploads that arrive at a time."""

    def __init__(self, num_bytes: int = 0) -> None:
        self._received, self._end = 0, num_bytes

    async def measure(self, folder: Path, limit: int) -> None:
        """Take the space that the files of a folder leave of a limit."""
        received = self._received  # what arrives while the folder is measured counts, also if it was measured
        size = await to_thread.run_sync(_measure_folder, folder)
        self._end = received + limit - size

    def limit(self, receive: Receive) -> Receive:
        """Return a ``receive`` that raises ``BodyTooLargeError`` once the space is taken."""

        async def count() -> Message:
            message = await receive()
            self._received += len(message.get("body", b""))
            if self._received > self._end:
                raise BodyTooLargeError
            return message

        return count


class ConnectionLimit:
    """ASGI middleware that limits simultaneous requests and WebSockets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = {"http": Connections(MAX_REQUESTS), "websocket": Connections(MAX_SOCKETS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse it."""
        held = self._open[scope["type"]].hold(client_address(scope))
        with held as is_allowed, suppress(ClientDisconnect, WebSocketDisconnect):  # the window was closed meanwhile
            if is_allowed:
                await self._app(scope, receive, send)
                return
            refusal = refuse(429, "too many connections are open; close some, or try again later")
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(refusal)
            else:
                await refusal(scope, receive, send)


class BodyLimit:
    """ASGI middleware that limits the body of a request, and all uploads together."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._uploads = app, BodySpace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app; refuse it once its body is too long, unless the response has begun."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        space, reason = BodySpace(MAX_BODY_BYTES), f"the request is longer than {MAX_BODY_BYTES // 2**20} MiB"
        if scope["path"].rstrip("/").endswith("/upload"):
            space = self._uploads
            await space.measure(Path(get_upload_folder()), MAX_UPLOADS_BYTES)
            reason = f"the uploads on this page would exceed {MAX_UPLOADS_BYTES / 2**30:g} GiB; try again tomorrow"
        is_started = False

        async def watch(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._app(scope, space.limit(receive), watch)
        except BodyTooLargeError:
            if not is_started:
                await refuse(413, reason)(scope, receive, send)


def _measure_folder(folder: Path) -> int:
    """Return the bytes of the files in a folder and its subfolders."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                size += os.lstat(os.path.join(parent, name)).st_size
    return size

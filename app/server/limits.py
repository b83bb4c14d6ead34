"""Limits of what is open at a time, and of the size of bodies.

Connections that send no request are closed. They are not seen by the middleware, and each takes a file descriptor. If
none is left, the server accepts no client.
"""

import math
import os
import re
import resource
import time
from asyncio import get_running_loop, timeout_at
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from gradio.utils import get_upload_folder
from h11 import LocalProtocolError
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.config import HTTP_PROTOCOLS, WS_PROTOCOLS, Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from stepscope.app.server.hosts import refuse
from stepscope.app.server.identity import client_address, find_network, lacks_login

MAX_BODY_BYTES: Final = 8 * 2**20
"""Maximum body of a request other than an upload, in bytes."""
MAX_BODIES_BYTES: Final = (64 * 2**20, 256 * 2**20)
"""Maximum size of the simultaneous bodies of one address, and of all."""
MAX_JSON_SIGNS: Final = 500_000
"""Maximum number of ``{``, ``[`` and ``,`` of a body, as in 25,000 outputs of frames: the event loop reads it."""
BODY_WAIT_S: Final = 60.0
"""Maximum time of a body, of an upload without data."""
MAX_UPLOADS_BYTES: Final = 16 * 2**30
"""Maximum size of all files that the page keeps for its windows, in bytes; they are removed after a day."""
MAX_REQUESTS: Final = (256, 768)
"""Maximum number of simultaneous requests of one address, and of all. An open window keeps up to three."""
MAX_SOCKETS: Final = (32, 128)
"""Maximum number of simultaneous WebSockets of one address, and of all. Each may keep tens of MiB."""


class BodyRefusedError(Exception):
    """A request body exceeds its limits; has the HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Connections:
    """Count what is open at a time, or its bytes: at most ``limits`` of one address and of all."""

    def __init__(self, limits: tuple[int, int]) -> None:
        self._limits = limits
        self._open = Counter[str]()

    @contextmanager
    def count(self, address: str) -> Iterator[Callable[[int], bool]]:
        """Yield what adds an amount until the end of a ``with`` block, and returns whether it is within the limits."""
        own = 0

        def add(amount: int) -> bool:
            nonlocal own
            own += amount
            self._open[address] += amount
            return self._open[address] <= self._limits[0] and self._open.total() <= self._limits[1]

        try:
            yield add
        finally:
            self._open[address] -= own
            self._open += Counter()  # without the addresses that have none

    @contextmanager
    def hold(self, address: str) -> Iterator[bool]:
        """Count one for the duration of a ``with`` block; yield whether it is within the limits."""
        with self.count(address) as add:
            yield add(1)


class UploadSpace:
    """The bytes that all uploads may still take that arrive at a time."""

    def __init__(self) -> None:
        self._received, self._end = 0, 0

    async def measure(self, folder: Path, limit: int) -> None:
        """Take the space that the files of a folder leave of a limit."""
        received = self._received  # what arrives while the folder is measured counts, also if it was measured
        size = await to_thread.run_sync(_measure_folder, folder)
        self._end = received + limit - size

    def check(self, chunk: bytes) -> None:
        """Count a part of a body. Raises ``BodyRefusedError`` once the space is taken."""
        self._received += len(chunk)
        if self._received > self._end:
            limit = MAX_UPLOADS_BYTES / 2**30
            raise BodyRefusedError(413, f"the uploads on this page would exceed {limit:g} GiB; try again tomorrow")


class ValueSpace:
    """The bytes and values that one body may have; ``add`` counts its bytes among those of all bodies."""

    def __init__(self, add: Callable[[int], bool]) -> None:
        self._add, self._received, self._signs = add, 0, 0

    def check(self, chunk: bytes) -> None:
        """Count a part of a body. Raises ``BodyRefusedError`` if it is too long."""
        self._received += len(chunk)
        self._signs += sum(map(chunk.count, (b"{", b"[", b",")))
        if self._received > MAX_BODY_BYTES:
            raise BodyRefusedError(413, f"the request is longer than {MAX_BODY_BYTES // 2**20} MiB")
        if self._signs > MAX_JSON_SIGNS:
            raise BodyRefusedError(413, f"the request has more than {MAX_JSON_SIGNS} parts, lists and commas")
        if not self._add(len(chunk)):
            raise BodyRefusedError(429, "too many long requests are under way; try again later")


class OpenWindows:
    """Counts the windows that are connected: each keeps a request for its heartbeat open, with a login if needed."""

    def __init__(self) -> None:
        self._count, self._last_s = 0, -math.inf

    def closed_s(self) -> float:
        """Return for how many seconds no window is open, as far as it was asked."""
        now = time.monotonic()
        if self._count:
            self._last_s = now
        return now - self._last_s

    @contextmanager
    def hold(self, scope: Scope) -> Iterator[None]:
        """Count a request, if it is a heartbeat, for the duration of a ``with`` block."""
        is_window = "/heartbeat/" in scope["path"] and not lacks_login(scope)
        self._count += is_window
        try:
            yield
        finally:
            self._count -= is_window


windows: Final = OpenWindows()


class ConnectionLimit:
    """ASGI middleware that limits simultaneous requests and WebSockets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = {"http": Connections(MAX_REQUESTS), "websocket": Connections(MAX_SOCKETS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse it."""
        held = self._open[scope["type"]].hold(client_address(scope))
        # the window was closed meanwhile, or the body is no HTTP
        with held as is_allowed, suppress(ClientDisconnect, WebSocketDisconnect, LocalProtocolError):
            if is_allowed:
                with windows.hold(scope):
                    await self._app(scope, receive, send)
                return
            refusal = refuse(429, "too many connections are open; close some, or try again later")
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(refusal)
            else:
                await refusal(scope, receive, send)


class BodyLimit:
    """ASGI middleware that limits the body of a request, all bodies at a time, and all uploads together."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._uploads, self._bodies = app, UploadSpace(), Connections(MAX_BODIES_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app; refuse it once its body is too long, unless the response has begun."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].rstrip("/").endswith("/upload"):
            await self._uploads.measure(Path(get_upload_folder()), MAX_UPLOADS_BYTES)
            await self._forward(scope, receive, send, self._uploads)
            return
        with self._bodies.count(client_address(scope)) as add:
            await self._forward(scope, receive, send, ValueSpace(add))

    async def _forward(self, scope: Scope, receive: Receive, send: Send, space: UploadSpace | ValueSpace) -> None:
        is_started, is_complete = False, False
        refused: BodyRefusedError | None = None
        end_s = get_running_loop().time() + BODY_WAIT_S

        async def receive_checked() -> Message:
            nonlocal is_complete, end_s, refused
            try:
                if isinstance(space, UploadSpace):
                    end_s = get_running_loop().time() + BODY_WAIT_S
                async with timeout_at(None if is_complete else end_s):
                    message = await receive()
                is_complete = not message.get("more_body", False)
                space.check(message.get("body", b""))
            except TimeoutError:
                refused = BodyRefusedError(408, f"the data did not come within {BODY_WAIT_S:g} s")
                raise refused from None
            except BodyRefusedError as error:
                refused = error
                raise
            return message

        async def watch(message: Message) -> None:
            nonlocal is_started
            if refused is None or is_started:  # else the app has an answer of its own to the error
                is_started = True
                await send(message)

        with suppress(BodyRefusedError):
            await self._app(scope, receive_checked, watch)
        if refused is not None and not is_started:
            await refuse(refused.status, refused.reason)(scope, receive, send)


def declared_size(headers: Headers) -> int:
    """Return the greatest possible size of a body within its limit, in bytes."""
    if "transfer-encoding" in headers:
        return MAX_BODY_BYTES
    length = headers.get("content-length", "0")
    return min(int(length), MAX_BODY_BYTES) if re.fullmatch(r"[0-9]{1,20}", length) else MAX_BODY_BYTES


def _measure_folder(folder: Path) -> int:
    """Return the bytes of the files in a folder and its subfolders."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


MAX_CONNECTIONS: Final = (1024, 2048)
"""Maximum number of connections of one address, which may be a proxy, and of all."""
REQUEST_WAIT_S: Final = 20.0
"""Maximum time from the begin of a connection, or from an answer, to the end of the next request's head."""
_MIN_DESCRIPTORS: Final = 8192


_open: Final = Connections(MAX_CONNECTIONS)


class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP of uvicorn, with these limits."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request, or close the connection."""
        super().connection_made(transport)
        self._held = ExitStack()
        if self._held.enter_context(_open.hold(find_network(self.client[0] if self.client else ""))):
            self._expect_request()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        self._held.close()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """Count the connection no longer: the middleware counts WebSockets."""
        self._held.close()
        super().handle_websocket_upgrade(*event)

    def _expect_request(self) -> None:
        self.loop.call_later(REQUEST_WAIT_S, self._check_request, self.cycle)

    def _check_request(self, before: Any) -> None:
        """Close the connection if no request came since, and none is being answered."""
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # or it became a WebSocket
            return
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.abort()
        else:
            self._expect_request()


MAX_FRAMES: Final = 4096
"""Maximum number of frames of a WebSocket between two messages; an empty one takes 10 µs of the event loop."""
_SLICE_BYTES: Final = 4096


class LimitedSocket(WebSocketsSansIOProtocol):
    """WebSockets of uvicorn without compression, by which 16 KiB become 16 MiB, and with a limit of frames.

    Texts are passed on as bytes: in Python, one character may make a text four times as large.
    """

    def __init__(self, config: Config, *values: Any, **options: Any) -> None:
        config.ws_per_message_deflate = False
        super().__init__(config, *values, **options)
        self._num_frames = 0

    def data_received(self, data: bytes) -> None:
        """Read in parts, so that a connection with too many frames is closed before all are read."""
        for begin in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[begin : begin + _SLICE_BYTES])

    def handle_events(self) -> None:
        """Count the frames, or close the connection."""
        self._num_frames += len(self.conn.events)
        if self._num_frames > MAX_FRAMES:
            self.transport.abort()
        else:
            super().handle_events()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on as bytes."""
        self._num_frames, self.curr_msg_data_type = 0, "bytes"
        super().send_receive_event_to_app()


def limit_connections() -> None:
    """Let uvicorn, which Gradio starts, use ``LimitedProtocol`` and ``LimitedSocket``, with enough file descriptors."""
    HTTP_PROTOCOLS["auto"] = f"{__name__}:{LimitedProtocol.__name__}"
    WS_PROTOCOLS["auto"] = f"{__name__}:{LimitedSocket.__name__}"
    with suppress(ValueError, OSError):  # a system that allows fewer
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MIN_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MIN_DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

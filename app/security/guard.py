"""ASGI middleware against cross-site requests, DNS rebinding, oversized bodies and password guessing.

Any web page can make a browser send requests here. So the ``Host`` header must name this page (DNS rebinding), requests
that change state must come from the same origin (CSRF), with a content type that the page uses.
"""

import ipaddress
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import gradio as gr
from anyio import to_thread
from gradio import processing_utils
from gradio.route_utils import GradioMultiPartParser
from gradio.state_holder import SessionState
from gradio.utils import get_upload_folder
from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from stepscope.app.failures import describe_failure, log_failure
from stepscope.engine.io.files import is_disk_full

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES: Final = 32 * 2**20
"""Maximum body of a request other than an upload, in bytes."""
MAX_UPLOADS_BYTES: Final = 16 * 2**30
"""Maximum size of all files that the page keeps for its windows, in bytes; they are removed after a day."""
MAX_SESSIONS: Final = 1000
"""Windows and programs whose state is kept, the latest ones; each takes about 0.3 MB."""
MAX_REQUESTS: Final = (256, 768)
"""Maximum number of simultaneous requests of one address, and of all. An open window keeps up to three."""
MAX_SOCKETS: Final = (32, 128)
"""Maximum number of simultaneous WebSockets of one address, and of all. Each may keep tens of MiB."""
MAX_FAILURES: Final = 10
"""Failed logins per address within ``FAILURE_WINDOW_S``; the limit over all addresses is ten times as high."""
FAILURE_WINDOW_S: Final = 300.0
API_PREFIX: Final = "/gradio_api/"
ALLOWED_ROUTES: Final = frozenset(
    {"app_id", "cancel", "component_server", "heartbeat", "info", "login_check", "queue", "reset", "startup-events"}
    | {"theme.css", "token", "upload", "upload_progress", "user"}
)
"""Gradio routes that the page uses, in addition to files. Routes that bypass the event queue are left out."""
ENDPOINTS: Final = ("run", "score", "open", "export")
"""Named endpoints for programs; ``app.endpoints`` registers them."""
_CALL: Final = re.compile(rf"call/(v2/)?({'|'.join(ENDPOINTS)})(/\w+)?")
"""Route of an endpoint for programs without a Gradio client; it goes through the event queue."""
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers that proxies add."""
BEHIND_PROXY: Final = (
    "this page serves its own machine only, and this request came through a proxy; start the page with "
    "--allowed-host NAME, where NAME is the host in the address bar"
)


def refuse_downloads() -> None:
    """Stop Gradio from fetching a file whose path is a URL: a download has no size limit."""

    async def refuse(*_: object, **__: object) -> NoReturn:
        raise gr.Error("This page fetches no files from other hosts; upload the file.", print_exception=False)

    processing_utils.async_ssrf_protected_download = refuse


def keep_no_values() -> None:
    """Stop Gradio from keeping the latest inputs of each session for deep links, which this page does not offer.

    A request can hold ``MAX_BODY_BYTES``, and any client can begin ``MAX_SESSIONS`` sessions.
    """

    def ignore(*_: object) -> None:
        """Keep nothing."""

    SessionState._update_value_in_config = ignore


def remove_failed_uploads() -> None:
    """Let Gradio remove the files of an upload that is refused, that its client leaves, or that fills the disk.

    They would count as uploads, and keep the disk full, for a day.
    """
    parse = GradioMultiPartParser.parse

    async def parse_or_remove(parser: GradioMultiPartParser) -> FormData:
        try:
            form: FormData = await parse(parser)
        except BaseException:
            for file in parser._files_to_close_on_error:
                with suppress(OSError):  # a full disk does not take the rest of the file
                    file.close()
                Path(file.name).unlink(missing_ok=True)
            raise
        return form

    setattr(GradioMultiPartParser, "parse", parse_or_remove)  # noqa: B010 - mypy refuses the assignment


class BodyTooLargeError(Exception):
    """A request body exceeds its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """Host names under which the page is served.

    Numeric IP addresses are accepted, since DNS rebinding needs a host name; a page for this machine only accepts those
    of this machine.
    """

    names: frozenset[str]
    """Host names in lower case; ``.example.org`` allows all subdomains, ``*`` allows every name."""
    outside: frozenset[str]
    """The subset of ``names`` that belongs to a proxy, which may forward a different ``Host`` header."""
    is_local: bool
    """Whether the page is for this machine only, so that requests through a proxy are refused."""

    @classmethod
    def from_options(cls, host: str, allowed: Iterable[str], *, is_proxied: bool = False) -> "HostRules":
        """Return the rules for a page that is served on ``host`` and behind proxies with the ``allowed`` names.

        ``is_proxied`` is whether another option names a proxy.
        """
        outside = {name.strip().lower() for name in allowed}
        if os.environ.get("SPACE_ID"):
            outside.add(".hf.space")
        own = {host.lower(), *LOOPBACK}
        if host not in LOOPBACK:
            own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        is_local = host in LOOPBACK and not outside and not is_proxied
        return cls(names=frozenset(own | outside), outside=frozenset(outside), is_local=is_local)

    def is_own_host(self, netloc: str) -> bool:
        """Return whether a ``Host`` header names this page."""
        name = _host_name(netloc)
        return _is_address(name, is_local=self.is_local) or _matches(name, self.names)

    def is_same_origin(self, origin: str, netloc: str) -> bool:
        """Return whether ``origin`` is the origin of this page, whose ``Host`` header is ``netloc``."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        default = _DEFAULT_PORTS.get(parts.scheme, "")
        same = parts.netloc.lower().removesuffix(default) == netloc.lower().removesuffix(default)
        return bool(parts.netloc) and (same or _matches(_host_name(parts.netloc), self.outside))


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


class RequestGuard:
    """ASGI middleware that refuses requests by ``HostRules``, with the reason in the response."""

    def __init__(self, app: ASGIApp, *, rules: HostRules) -> None:
        self._app, self._rules = app, rules
        self._throttle, self._uploads = Throttle(), BodySpace()
        self._open = {"http": Connections(MAX_REQUESTS), "websocket": Connections(MAX_SOCKETS)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse it."""
        if scope["type"] not in self._open:
            await self._app(scope, receive, send)
            return
        is_socket = scope["type"] == "websocket"
        with self._open[scope["type"]].hold(_address(scope)) as is_allowed:
            try:
                if not is_allowed:
                    refusal = _refuse(429, "too many connections are open; close some, or try again later")
                    await (
                        WebSocket(scope, receive, send).send_denial_response(refusal)
                        if is_socket
                        else refusal(scope, receive, send)
                    )
                else:
                    await (self._connect if is_socket else self._answer)(scope, receive, send)
            except (ClientDisconnect, WebSocketDisconnect):  # the window was closed during its request
                pass

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward an HTTP request to the app, or refuse it."""
        headers, path = Headers(scope=scope), scope["path"].rstrip("/")
        address = _address(scope)
        is_login = path.endswith("/login") and scope["method"] == "POST"
        began = time.monotonic()
        wait_s = self._throttle.wait_s(address, now=began) if is_login else 0.0
        refusal = find_refusal(self._rules, method=scope["method"], path=path, headers=headers)
        if refusal is None and wait_s > 0:
            refusal = 429, f"too many wrong passwords; try again in {wait_s:.0f} s"
        if refusal is not None:
            await _refuse(*refusal)(scope, receive, send)
            return
        if is_login:
            self._throttle.record_attempt(address, now=began)
        if not _is_one_range(headers.get("range", "bytes=0-")):  # Gradio fails on these: send the whole file
            scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}
        is_started = False

        async def send_safe(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
                if is_login and message["status"] < 400:
                    self._throttle.record_success(address, began=began)
            await send(message)

        space, reason = BodySpace(MAX_BODY_BYTES), f"the request is longer than {MAX_BODY_BYTES // 2**20} MiB"
        if path.endswith("/upload"):
            space = self._uploads
            await space.measure(Path(get_upload_folder()), MAX_UPLOADS_BYTES)
            reason = f"the uploads on this page would exceed {MAX_UPLOADS_BYTES / 2**30:g} GiB; try again tomorrow"
        try:
            await self._app(scope, space.limit(receive), send_safe)
        except BodyTooLargeError:
            if not is_started:
                await _refuse(413, reason)(scope, receive, send)
        except ClientDisconnect:
            raise
        except Exception as error:  # values that a route does not expect
            log_failure(error)
            if not is_started:
                status = 507 if is_disk_full(error) else 400
                await _refuse(status, describe_failure(error).removesuffix("."))(scope, receive, send)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a WebSocket to the app, or refuse it before it opens; browsers always name the page it comes from."""
        headers = Headers(scope=scope)
        origin, netloc = headers.get("origin"), headers.get("host", "")
        is_foreign = origin is not None and not self._rules.is_same_origin(origin, netloc)
        is_forwarded = self._rules.is_local and _has_passed_proxy(headers)
        if is_foreign or is_forwarded or not self._rules.is_own_host(netloc):
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)


def find_refusal(rules: HostRules, *, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
    """Return the HTTP status and reason of a refusal; None if the request is allowed."""
    netloc = headers.get("host", "")
    if not rules.is_own_host(netloc):
        name = _host_name(netloc)
        return 421, f"this page is not served as {name!r}; if it should be, start it with --allowed-host {name}"
    if rules.is_local and _has_passed_proxy(headers):
        return 403, BEHIND_PROXY
    if "=http:" in path or "=https:" in path:
        return 403, "this page does not fetch from other hosts"
    _, _, route = path.partition(API_PREFIX)
    is_known = route.startswith("file=") or route.partition("/")[0] in ALLOWED_ROUTES or _CALL.fullmatch(route)
    if route and not is_known:
        return 404, f"this page has no {route.partition('/')[0][:80]}"
    if method in SAFE_METHODS:
        return None
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")  # a page cannot set the latter
    is_foreign = origin is not None and not rules.is_same_origin(origin, netloc)
    is_trusted = site in ("same-origin", "none") if site is not None else not is_foreign
    # a proxy has changed the Host of a request that its browser calls one of the same origin
    if not is_trusted or (rules.is_local and is_foreign):
        return 403, (
            f"a request from another page ({origin}) cannot change anything here; behind a proxy, start with "
            "--allowed-host NAME, where NAME is the host in the address bar"
        )
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = ["application/json"]
    if path.endswith("/upload"):
        expected = ["multipart/form-data"]
    elif path.endswith("/login"):
        expected = ["application/x-www-form-urlencoded", "multipart/form-data"]  # the latter by Gradio's login form
    has_body = headers.get("content-length", "") not in ("", "0") or "transfer-encoding" in headers
    if has_body and content_type not in expected:
        return 415, f"the content type of this request must be {expected[0]}; got {content_type or 'none'}"
    return None


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _has_passed_proxy(headers: Headers) -> bool:
    return any(name in headers for name in PROXY_HEADERS)


def _is_one_range(text: str) -> bool:
    """Return whether a ``Range`` header selects a single valid range; others may be ignored (RFC 9110, 14.2)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text)
    first, last = found.groups() if found else ("", "")
    return bool(first or last) and (not (first and last) or int(first) <= int(last))


def _refuse(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"detail": f"{reason[:1].upper()}{reason[1:]}."}, status)


def _measure_folder(folder: Path) -> int:
    """Return the bytes of the files in a folder and its subfolders."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


def _remaining_s(times: Sequence[float], limit: int, now: float) -> float:
    """Return the seconds until fewer than ``limit`` of the times are within the window."""
    return FAILURE_WINDOW_S - (now - times[-limit]) if len(times) >= limit else 0.0


def _host_name(netloc: str) -> str:
    """Return the lower-case host of ``name:port``, ``[address]:port`` or a bare name."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str, *, is_local: bool) -> bool:
    """Return whether a host is a numeric address, of this machine if ``is_local``."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or not is_local


def _matches(name: str, names: frozenset[str]) -> bool:
    return bool(name) and any(
        name == known or known == "*" or (known.startswith(".") and name.endswith(known)) for known in names
    )

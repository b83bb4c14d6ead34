"""Which requests the page answers: those of its own windows and of programs, not those of foreign web pages.

A browser sends what any page asks of it, to this machine too. So a request must name the page by a host that is its
own (a foreign name that was pointed at this machine is refused), a request that changes something must come from the
page itself, and it must be of the kind that the page sends. Bodies and tries at a password are limited.
"""

import ipaddress
import json
import os
import re
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_BODY_BYTES: Final = 32 * 2**20
"""Longest body of a request that is no upload, in bytes."""
MAX_FAILURES: Final = 10
"""Wrong passwords from one address within ``FAILURE_WINDOW_S``; ten times as many from all."""
FAILURE_WINDOW_S: Final = 300.0
API_PREFIX: Final = "/gradio_api/"
ALLOWED_ROUTES: Final = frozenset(
    (
        "app_id",
        "cancel",
        "component_server",
        "heartbeat",
        "info",
        "login_check",
        "queue",
        "reset",
        "startup-events",
        "theme.css",
        "token",
        "upload",
        "upload_progress",
        "user",
    )
)
"""What windows ask of Gradio's interface, beside files. Not here are routes that run an event past the queue."""
MAX_ADDRESSES: Final = 10_000
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


class BodyTooLargeError(Exception):
    """A body goes on after its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """Under which host names the page is served.

    Addresses in digits are always its own: another site cannot make a browser send them as the name of the page.
    """

    names: frozenset[str]
    """Host names in lower case; ``.example.org`` stands for all names that end so, ``*`` for any."""
    outside: frozenset[str]
    """Those of them under which a proxy in front of the page is reached, whatever host the proxy asks for."""

    @classmethod
    def from_options(cls, host: str, allowed: Iterable[str]) -> "HostRules":
        """Return the rules of a page that is served on ``host``, and behind proxies of the ``allowed`` names."""
        outside = {name.strip().lower() for name in allowed}
        if os.environ.get("SPACE_ID"):
            outside.add(".hf.space")
        own = {host.lower(), *LOOPBACK}
        if host not in LOOPBACK:
            own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(names=frozenset(own | outside), outside=frozenset(outside))

    def is_own_host(self, netloc: str) -> bool:
        """Whether a ``Host`` header names this page."""
        name = _host_name(netloc)
        return _is_address(name) or _matches(name, self.names)

    def is_same_origin(self, origin: str, netloc: str) -> bool:
        """Whether a page of an origin is this page, which the request names ``netloc``."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        default = _DEFAULT_PORTS.get(parts.scheme, "")
        same = parts.netloc.lower().removesuffix(default) == netloc.lower().removesuffix(default)
        return bool(parts.netloc) and (same or _matches(_host_name(parts.netloc), self.outside))


@dataclass(slots=True, kw_only=True)
class Throttle:
    """Counts wrong passwords by address, over the last ``FAILURE_WINDOW_S`` seconds."""

    _failures: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _all: deque[float] = field(default_factory=deque)

    def wait_s(self, address: str, *, now: float) -> float:
        """Return the seconds until an address may try again; 0 when it may."""
        mine = self._failures.get(address, deque())
        waits = [_remaining_s(mine, MAX_FAILURES, now), _remaining_s(self._all, 10 * MAX_FAILURES, now)]
        return max(waits)

    def record_attempt(self, address: str, *, now: float) -> None:
        """Count a try as wrong until it succeeds, so that tries that are sent at once are all counted."""
        mine = self._failures.setdefault(address, deque())
        self._failures.move_to_end(address)
        mine.append(now)
        self._all.append(now)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)

    def record_success(self, address: str, *, began: float) -> None:
        """Forget the wrong passwords of an address that has found the right one, with the try that began then."""
        self._failures.pop(address, None)
        with suppress(ValueError):  # it is older than ``FAILURE_WINDOW_S``
            self._all.remove(began)


class RequestGuard:
    """ASGI middleware that refuses, with a sentence, what the page does not answer."""

    def __init__(self, app: ASGIApp, *, rules: HostRules) -> None:
        self._app, self._rules = app, rules
        self._throttle = Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"].rstrip("/")
        address = scope["client"][0] if scope.get("client") else ""
        is_login = path.endswith("/login") and scope["method"] == "POST"
        began = time.monotonic()
        wait_s = self._throttle.wait_s(address, now=began) if is_login else 0.0
        refusal = find_refusal(self._rules, method=scope["method"], path=path, headers=headers)
        if refusal is None and wait_s > 0:
            refusal = 429, f"there were too many wrong passwords; try again in {wait_s:.0f} s"
        if refusal is not None:
            await _send_refusal(send, *refusal)
            return
        if is_login:
            self._throttle.record_attempt(address, now=began)
        if not _is_one_range(headers.get("range", "bytes=0-")):  # Gradio fails on it: it gets the whole file
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

        limit = None if path.endswith("/upload") else MAX_BODY_BYTES
        try:
            await self._app(scope, _limit_body(receive, limit), send_safe)
        except BodyTooLargeError:
            if not is_started:
                await _send_refusal(send, 413, f"the request is longer than {MAX_BODY_BYTES // 2**20} MiB")


def find_refusal(rules: HostRules, *, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
    """Return status and sentence of a request that is refused; None for one that is answered."""
    netloc = headers.get("host", "")
    if not rules.is_own_host(netloc):
        name = _host_name(netloc)
        return 421, f"this page is not served as {name!r}; if it should be, start it with --allowed-host {name}"
    if "=http:" in path or "=https:" in path:
        return 403, "this page fetches nothing from other hosts"
    _, _, called = path.partition(API_PREFIX)
    if called and not called.startswith("file=") and called.partition("/")[0] not in ALLOWED_ROUTES:
        return 404, f"this page has no {called.partition('/')[0][:80]}"
    if method in SAFE_METHODS:
        return None
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")  # the latter no page can choose
    is_foreign = origin is not None and not rules.is_same_origin(origin, netloc)
    if site not in ("same-origin", "none") if site is not None else is_foreign:
        return 403, (
            f"another page ({origin}) cannot change anything here; behind a proxy, start with --allowed-host NAME, "
            "where NAME is the host in the address bar"
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = "application/json"
    if path.endswith("/upload"):
        wanted = "multipart/form-data"
    elif path.endswith("/login"):
        wanted = "application/x-www-form-urlencoded"
        if kind == "multipart/form-data":  # Gradio's own form
            wanted = kind
    has_body = headers.get("content-length", "") not in ("", "0") or "transfer-encoding" in headers
    if has_body and kind != wanted:
        return 415, f"a request of this kind must be {wanted}; got {kind or 'no content type'}"
    return None


def _is_one_range(text: str) -> bool:
    """Whether a ``Range`` header asks for one part of a file; any other may be ignored (RFC 9110, 14.2)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text)
    first, last = found.groups() if found else ("", "")
    return bool(first or last) and (not (first and last) or int(first) <= int(last))


async def _send_refusal(send: Send, status: int, why: str) -> None:
    body = json.dumps({"detail": f"{why[:1].upper()}{why[1:]}."}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limit_body(receive: Receive, limit: int | None) -> Receive:
    """Count the bytes of a body; raise ``BodyTooLargeError`` after ``limit`` of them."""
    if limit is None:
        return receive
    received = 0

    async def count() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise BodyTooLargeError
        return message

    return count


def _remaining_s(times: deque[float], most: int, now: float) -> float:
    while times and now - times[0] > FAILURE_WINDOW_S:
        times.popleft()
    return FAILURE_WINDOW_S - (now - times[-most]) if len(times) >= most else 0.0


def _host_name(netloc: str) -> str:
    """Return the name or address in ``name:port``, ``[address]:port`` or a name alone, in lower case."""
    try:
        return (urlsplit(f"//{netloc}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _matches(name: str, names: frozenset[str]) -> bool:
    return bool(name) and any(
        name == known or known == "*" or (known.startswith(".") and name.endswith(known)) for known in names
    )

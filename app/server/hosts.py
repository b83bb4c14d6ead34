"""Refuses requests that do not name this page, that come from another one, or that lead to an unused route of Gradio.

Any web page can make a browser send requests here. So the ``Host`` header must name this page (DNS rebinding), requests
that change state must come from the same origin (CSRF), with a content type that the page uses.
"""

import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


def refuse(status: int, reason: str) -> JSONResponse:
    """Return the response of a refused request, with the reason as one sentence."""
    return JSONResponse({"detail": f"{reason[:1].upper()}{reason[1:]}."}, status)


API_PREFIX: Final = "/gradio_api/"
ALLOWED_ROUTES: Final = frozenset(
    {"app_id", "cancel", "component_server", "heartbeat", "info", "login_check", "queue", "reset", "startup-events"}
    | {"theme.css", "token", "upload", "upload_progress", "user"}
)
"""Gradio routes that the page uses, in addition to files. Routes that bypass the event queue are left out."""
ENDPOINTS: Final = ("run", "score", "open", "export")
"""Named endpoints for programs; ``app.api.endpoints`` registers them."""
_CALL: Final = re.compile(rf"call/(v2/)?({'|'.join(ENDPOINTS)})(/\w+)?")
"""Route of an endpoint for programs without a Gradio client; it goes through the event queue."""


def is_known_route(path: str) -> bool:
    """Return whether a path is no route of Gradio's API, or one that is used."""
    _, _, route = path.partition(API_PREFIX)
    name = route.partition("/")[0]
    return not route or route.startswith("file=") or name in ALLOWED_ROUTES or bool(_CALL.fullmatch(route))


LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
BEHIND_PROXY: Final = (
    "this page serves its own machine only, and this request came through a proxy; start the page with "
    "--allowed-host NAME, where NAME is the host in the address bar"
)


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


class HostGuard:
    """ASGI middleware that refuses requests by ``HostRules`` and by their route, with the reason in the response."""

    def __init__(self, app: ASGIApp, *, rules: HostRules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request or a WebSocket to the app, or refuse it; browsers always name the page it comes from."""
        headers = Headers(scope=scope)
        if scope["type"] == "http":
            path = scope["path"].rstrip("/")
            refusal = find_refusal(self._rules, method=scope["method"], path=path, headers=headers)
            await (self._app if refusal is None else refuse(*refusal))(scope, receive, send)
            return
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
    if not is_known_route(path):
        return 404, f"this page has no {path.partition(API_PREFIX)[2].partition('/')[0][:80]}"
    if method in SAFE_METHODS and not path.endswith("/logout"):  # it ends the sessions of its user
        return None
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")  # a page cannot set the latter
    is_foreign = origin is not None and not rules.is_same_origin(origin, netloc)
    is_trusted = site in ("same-origin", "none") if site is not None else not is_foreign
    # a proxy has changed the Host of a request that its browser calls one of the same origin
    if not is_trusted or (rules.is_local and is_foreign):
        return 403, (
            f"a request from another page ({origin or site}) cannot change anything here; behind a proxy, start with "
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


def _has_passed_proxy(headers: Headers) -> bool:
    return any(name in headers for name in PROXY_HEADERS)


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

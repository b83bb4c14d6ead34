"""The ASGI middleware of the page: limits, hosts and origins, logins, bodies, responses, in this order."""

from starlette.types import ASGIApp, Receive, Scope, Send

from stepscope.app.security.hosts import HostGuard, HostRules
from stepscope.app.security.limits import BodyLimit, ConnectionLimit
from stepscope.app.security.logins import LoginThrottle
from stepscope.app.security.responses import SafeResponses


class RequestGuard:
    """ASGI middleware that refuses what the modules of this package describe, with the reason in the response."""

    def __init__(self, app: ASGIApp, *, rules: HostRules) -> None:
        guarded = LoginThrottle(BodyLimit(SafeResponses(app)))
        self._app, self._guarded = app, ConnectionLimit(HostGuard(guarded, rules=rules))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the app, or refuse it."""
        is_request = scope["type"] in ("http", "websocket")
        await (self._guarded if is_request else self._app)(scope, receive, send)

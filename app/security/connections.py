"""Connections that send no request are closed, and their number is limited.

They are not seen by the middleware, and each takes a file descriptor. If none is left, the server accepts no client.
"""

from contextlib import ExitStack, suppress
from typing import Any, Final

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from stepscope.app.security.limits import Connections
from stepscope.app.security.refusals import find_network

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


def limit_connections() -> None:
    """Let uvicorn, which Gradio starts, use ``LimitedProtocol``, with enough file descriptors."""
    HTTP_PROTOCOLS["auto"] = f"{__name__}:{LimitedProtocol.__name__}"
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource  # noqa: PLC0415

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MIN_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MIN_DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

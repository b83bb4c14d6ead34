"""A reverse proxy in front of a page: below a path, with or without that path in what it forwards."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.support.pages.browser import free_port

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade"}
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]


@contextmanager
def serve_proxy(target: str, *, prefix: str, strips: bool = True) -> Iterator[str]:
    """Serve ``target`` below ``prefix`` on a free port of ``localhost``; yield the address without the prefix.

    Args:
        target: Address of the page, such as ``http://127.0.0.1:7860``.
        prefix: Path of the page on this proxy, such as ``/user/ann``; another path is answered with status 404.
        strips: Whether the page gets the path without the prefix.
    """
    port = free_port()
    forward = _Forwarder(target, prefix if strips else "")
    routes = [
        Route(f"{prefix}/{{path:path}}", forward.send, methods=METHODS),
        WebSocketRoute(f"{prefix}/{{path:path}}", forward.connect),
    ]
    app = Starlette(routes=routes, lifespan=forward.lifespan)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        ws="websockets-sansio",  # "auto" is that of the page, where a test has served one in this process
        log_level="warning",
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(0.02)
    try:
        yield f"http://localhost:{port}"
    finally:
        server.should_exit = True
        thread.join()


class _Forwarder:
    def __init__(self, target: str, stripped: str) -> None:
        self._target, self._stripped = target, stripped
        self._page = httpx.AsyncHTTPTransport()  # not a client, which would keep the cookies of one visitor for all

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self._page:
            yield

    def _address(self, path: str, query: str) -> str:
        return path.removeprefix(self._stripped) + (f"?{query}" if query else "")

    def _headers(self, headers: Headers) -> list[tuple[str, str]]:
        return [(name, value) for name, value in headers.items() if name not in HOP_BY_HOP]

    async def send(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode()
        asked = httpx.Request(
            request.method,
            self._target + self._address(path, request.url.query),
            headers=self._headers(request.headers),
            content=request.stream() if request.method == "POST" else None,
        )
        try:
            reply = await self._page.handle_async_request(asked)
        except httpx.TransportError as error:
            return PlainTextResponse(str(error), 502)
        sent = StreamingResponse(reply.aiter_raw(), reply.status_code, background=BackgroundTask(reply.aclose))
        sent.raw_headers = [
            (name.lower(), value) for name, value in reply.headers.raw if name.lower().decode() not in HOP_BY_HOP
        ]
        return sent

    async def connect(self, socket: WebSocket) -> None:
        """Forward the messages of a WebSocket both ways until one side closes it."""
        address = self._target.replace("http", "ws", 1) + self._address(socket.url.path, socket.url.query)
        kept = {"origin", "cookie"}
        headers = [(name, value) for name, value in self._headers(socket.headers) if name in kept]
        async with AsyncExitStack() as stack:
            try:
                page = await stack.enter_async_context(connect(address, additional_headers=headers, proxy=None))
            except OSError:
                await socket.close(1011)
                return
            await socket.accept()

            async def send_on() -> None:
                with suppress(WebSocketDisconnect, ConnectionClosed):
                    while True:
                        await page.send(await socket.receive_text())
                await page.close()

            task = asyncio.create_task(send_on())
            with suppress(ConnectionClosed, WebSocketDisconnect, RuntimeError):
                async for message in page:
                    await socket.send_text(str(message))
            task.cancel()
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close()

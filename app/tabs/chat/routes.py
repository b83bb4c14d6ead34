"""Routes for programs: the WebSocket, and the state of the workers as JSON. They need the page's login."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from stepscope.app.security.identity import signed_in
from stepscope.app.tabs.chat.socket import ChatSocket
from stepscope.engine.chat.pool import PoolStatus, WorkerPool
from stepscope.engine.chat.service import ChatService
from stepscope.engine.model.checkpoint import Checkpoint


def chat_routes(service: ChatService[Any], checkpoint: Checkpoint) -> list[BaseRoute]:
    """Return the routes of a page's server, from ``/ws/streaming/{session_id}`` to ``/cache``."""
    pool = service.pool
    encoder = ThreadPoolExecutor(1, thread_name_prefix="chat-pictures")

    async def connect(socket: WebSocket) -> None:
        if _is_refused(socket):
            await socket.close(1008)
            return
        await ChatSocket(socket, service, checkpoint=checkpoint, encoder=encoder).serve()

    return [
        WebSocketRoute("/ws/streaming/{session_id}", connect),
        _report("/status", pool, _describe_pool),
        _report("/workers", pool, lambda status: [asdict(worker) for worker in status.workers]),
        _report("/cache", pool, lambda status: {worker.name: asdict(worker.store) for worker in status.workers}),
    ]


def _report(path: str, pool: WorkerPool[Any], describe: Callable[[PoolStatus], Any]) -> Route:
    async def send(request: Request) -> Response:
        if _is_refused(request):
            return JSONResponse({"detail": "Log in on the page first."}, 401)
        return JSONResponse(describe(pool.status))

    return Route(path, send)


def _describe_pool(status: PoolStatus) -> dict[str, Any]:
    return {
        "num_workers": len(status.workers),
        "num_idle": sum(worker.is_idle for worker in status.workers),
        "num_queued": status.num_queued,
        "max_queued": status.max_queued,
        "mean_answer_s": round(status.mean_answer_s, 3),
    }


def _is_refused(connection: HTTPConnection) -> bool:
    """Return whether the page has a login that this client lacks."""
    return connection.app.auth is not None and signed_in(connection) is None

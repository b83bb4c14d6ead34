"""A small server that speaks both protocols of served models, on a port of its own."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve


@dataclass
class ModelServer:
    """Answers requests in order, and keeps them."""

    answers: list[str]
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses and headers that the first requests get instead of an answer."""
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    raw: str | None = None
    """Body of every answer, instead of a valid one."""

    logprobs: Callable[[str], list[dict[str, Any]]] | None = None
    """The tokens of an answer with their logprobs, for requests that ask for them."""

    events: list[list[dict[str, Any]]] = field(default_factory=list)
    """Events that the first queries of a WebSocket get, instead of those of an answer."""
    respond: Callable[[dict[str, Any]], tuple[int, Any]] | None = None
    """The status and the JSON that a request gets, instead of an answer."""

    def next_answer(self) -> str:
        return self.answers.pop(0) if self.answers else "SILENT"


@contextmanager
def serve_chat(server: ModelServer) -> Iterator[ModelServer]:
    """Serve ``/v1/chat/completions``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.requests.append({"path": self.path, **json.loads(body)})
            server.keys.append(self.headers.get("Authorization"))
            status, headers = server.failures.pop(0) if server.failures else (200, {})
            asked = server.requests[-1]
            content: dict[str, Any] = {"error": "x"}
            if server.respond is not None and status == 200:
                status, content = server.respond(asked)
            elif status == 200:
                answer = server.next_answer()
                choice: dict[str, Any] = {"message": {"content": answer}, "finish_reason": "stop"}
                if server.logprobs and asked.get("logprobs"):
                    choice["logprobs"] = {"content": server.logprobs(answer)[: asked["max_tokens"]]}
                content = {"choices": [choice]}
            text = (json.dumps(content) if server.raw is None else server.raw).encode()
            with suppress(ConnectionError):  # of a request that was cancelled
                self.send_response(status)
                for name, value in {"Content-Length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_port}/v1"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


@contextmanager
def serve_video_chat(server: ModelServer, *, is_silent: bool = False) -> Iterator[ModelServer]:
    """Serve ``/v1/video/chat/stream``; one that ``is_silent`` never answers a query."""

    def refuse(connection: ServerConnection, _: Request) -> Response | None:
        return connection.respond(HTTPStatus(server.failures.pop(0)[0]), "") if server.failures else None

    def handle(connection: ServerConnection) -> None:
        assert connection.request is not None
        server.keys.append(connection.request.headers.get("Authorization"))
        try:
            for message in connection:
                event = json.loads(message)
                server.requests.append({"path": connection.request.path, **event})
                if event["type"] == "video.query" and not is_silent:
                    text = "" if server.events else server.next_answer()
                    parts = [text[:4], text[4:]]
                    events = [{"type": "response.text.delta", "delta": part} for part in parts]
                    sent = server.events.pop(0) if server.events else [*events, {"type": "response.text.done"}]
                    for one in [{"type": "response.start"}, *sent]:
                        connection.send(json.dumps(one))
        except ConnectionClosed:
            return

    with serve(handle, "127.0.0.1", 0, process_request=refuse) as sockets:
        thread = threading.Thread(target=sockets.serve_forever)
        thread.start()
        server.url = f"ws://127.0.0.1:{sockets.socket.getsockname()[1]}"
        try:
            yield server
        finally:
            sockets.shutdown()
            thread.join()

"""A server that answers with too much, too slowly, or with what is no text, costs one sentence."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError

Send = Callable[[BaseHTTPRequestHandler], None]
PLAIN = json.dumps({"choices": [{"message": {"content": "Go."}}]}).encode()


@contextmanager
def serving(send: Send) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with suppress(OSError):  # the client has left
                send(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(send: Send, *, timeout_s: float = 30) -> str:
    with serving(send) as url, ChatClient(Endpoint(url=url, model="m", timeout_s=timeout_s, num_retries=0)) as client:
        return client.complete([], max_tokens=8).text


def answer(content: bytes, *, status: int = 200, **headers: str) -> Send:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return send


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (answer(bytes(2**23)), "more than 4 MiB"),
        (answer(gzip.compress(bytes(2**24)), Content_Encoding="gzip"), "compressed body"),
        (answer(b"\x1b[2Jgone\x07", status=400), r"status 400: \?\[2Jgone\?$"),
    ],
)
def test_a_hostile_answer_is_one_sentence(send: Send, words: str) -> None:
    with pytest.raises(ServedModelError, match=words):
        ask(send)


def test_a_slow_drip_ends_at_the_time_limit_of_the_whole_answer() -> None:
    is_over = threading.Event()
    num_sent = 0

    def drip(handler: BaseHTTPRequestHandler) -> None:
        nonlocal num_sent
        handler.send_response(200)
        handler.end_headers()
        while num_sent < 200 and not is_over.wait(0.05):
            handler.wfile.write(b" ")
            num_sent += 1

    try:
        with pytest.raises(ServedModelError, match=r"took longer than 0\.5 s; raise --timeout-s"):
            ask(drip, timeout_s=0.5)
    finally:
        is_over.set()
    assert num_sent < 200

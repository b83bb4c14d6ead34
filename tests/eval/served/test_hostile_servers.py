"""A server that answers with too much, too slowly, or with what is no text, costs one sentence."""

import gzip
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from stepscope.eval.served.chat import ChatClient, Endpoint, ServedModelError
from stepscope.eval.served.video_chat import open_video_chat

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
        (answer(PLAIN.replace(b"Go.", b"x" * 200_000)), "more than 100000 characters"),
        (answer(b"[" * 200_000), "a form without choices"),
        (answer(b"\xff\xfe"), "a form without choices"),
        (answer(b"\x1b[2Jgone\x07", status=400), r"status 400: \?\[2Jgone\?$"),
    ],
)
def test_a_hostile_answer_is_one_sentence(send: Send, words: str) -> None:
    with pytest.raises(ServedModelError, match=words):
        ask(send)


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert ask(answer(PLAIN.replace(b"Go.", b"\\ud800"))) == "?"


@pytest.mark.parametrize("is_in_headers", [False, True])
def test_a_slow_drip_ends_at_the_time_limit_of_the_whole_answer(is_in_headers: bool) -> None:
    is_over = threading.Event()
    num_sent = 0

    def drip(handler: BaseHTTPRequestHandler) -> None:
        nonlocal num_sent
        handler.send_response(200)
        if is_in_headers:
            handler.flush_headers()
        else:
            handler.end_headers()
        while num_sent < 200 and not is_over.wait(0.05):
            handler.wfile.write(b"X: y\r\n" if is_in_headers else b" ")
            num_sent += 1

    try:
        with pytest.raises(ServedModelError, match="took longer than --timeout-s"):
            ask(drip, timeout_s=0.5)
    finally:
        is_over.set()
    assert num_sent < 200


Event = dict[str, object]
DONE: Event = {"type": "response.text.done"}


@contextmanager
def serving_stream(handle: Callable[[ServerConnection], None]) -> Iterator[str]:
    def run(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed, OSError):  # the client has left
            handle(connection)

    with serve(run, "127.0.0.1", 0, close_timeout=0.1, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def answering(events: Callable[[], Iterable[Event]]) -> Callable[[ServerConnection], None]:
    """Return a handler that sends events after the query."""

    def handle(connection: ServerConnection) -> None:
        while json.loads(connection.recv())["type"] != "video.query":
            pass
        for event in events():
            connection.send(json.dumps(event))

    return handle


def delta(text: str) -> Event:
    return {"type": "response.text.delta", "delta": text}


def query(handle: Callable[[ServerConnection], None], *, timeout_s: float = 30) -> str:
    with serving_stream(handle) as url, open_video_chat(endpoint_of(url, timeout_s)) as chat:
        return chat.ask("?").text


def endpoint_of(url: str, timeout_s: float) -> Endpoint:
    return Endpoint(url=url, model="m", timeout_s=timeout_s, num_retries=0)


def show_pictures(url: str) -> None:
    with open_video_chat(endpoint_of(url, timeout_s=0.5)) as chat:
        for _ in range(40):
            chat.see(os.urandom(2**20), time_s=0)


@pytest.mark.parametrize("events", [[DONE | {"text": "x" * 200_000}], [delta("x" * 60_000), delta("y" * 60_000), DONE]])
def test_a_stream_answers_with_a_bounded_text(events: list[Event]) -> None:
    with pytest.raises(ServedModelError, match="more than 100000 characters"):
        query(answering(lambda: events))


@pytest.mark.parametrize("event", [delta(""), {"type": "other"}, delta("") | {"pad": "x" * 100_000}])
def test_a_flood_of_events_ends_at_the_time_limit(event: Event) -> None:
    began_s = time.monotonic()
    with pytest.raises(ServedModelError, match="no answer in time"):
        query(answering(lambda: itertools.repeat(event)), timeout_s=0.5)
    assert time.monotonic() - began_s < 4


def test_a_stream_that_reads_nothing_ends_at_the_time_limit() -> None:
    is_over = threading.Event()

    def wait(_: ServerConnection) -> None:
        is_over.wait(30)

    began_s = time.monotonic()
    with serving_stream(wait) as url:
        try:
            with pytest.raises(ServedModelError, match="no answer in time"):
                show_pictures(url)
        finally:
            is_over.set()
    assert time.monotonic() - began_s < 10

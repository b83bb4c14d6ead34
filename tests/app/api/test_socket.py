"""The WebSocket for programs: messages, the queue, stop, clients that leave, and who may connect."""

import base64
import io
import runpy
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest
import uvicorn
from PIL import Image
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from stepscope.app.server import limits
from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled
from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.worker import ChatWorker
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.chat_socket import ASK, generate, make_app, prefill, receive, wait_until_free
from tests.support.pages.browser import free_port
from tests.support.paths import ROOT

SPOKEN = ["Good. ", "Now ", "mount ", "the ", "block.", " Then", " it"]


def picture(shade: int) -> dict[str, str]:
    file = io.BytesIO()
    Image.new("RGB", (30, 20), (shade, 10, 200 - shade)).save(file, "PNG")
    return {"type": "image", "data": base64.b64encode(file.getvalue()).decode()}


def test_a_second_turn_reuses_the_first(client: TestClient, pool: WorkerPool[ChatWorker]) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        first = prefill(socket, ASK)
        assert first["cached_tokens"] == 0
        assert first["message_count"] == 1
        text, done = generate(socket)
        stats = done["token_stats"]
        assert done["session_id"] == "a"
        assert not done["stopped"]
        assert stats["generated_tokens"] <= 8
        assert stats["total_tokens"] == first["prompt_length"] + stats["generated_tokens"]
        second = prefill(socket, [*ASK, {"role": "assistant", "content": text}, {"role": "user", "content": "Why?"}])
        assert second["cached_tokens"] >= first["prompt_length"] - 1
        assert second["cached_tokens"] + second["input_tokens"] == second["prompt_length"]
        generate(socket)
    wait_until_free(pool)
    assert client.get("/status").json()["num_idle"] == 1
    assert client.get("/workers").json()[0]["num_answers"] == 2
    assert client.get("/cache").json()["cpu"]["num_entries"] == 1


def test_a_signed_in_user_reuses_nothing_of_another(pool: WorkerPool[ChatWorker]) -> None:
    app = make_app(pool, auth=[("ann", "1"), ("bob", "2")])
    app.tokens = {"secret": "ann", "other": "bob"}  # type: ignore[attr-defined]
    cached = {}
    with TestClient(app) as client:
        for name, token in (("ann", "secret"), ("bob", "other"), ("ann again", "secret")):
            with client.websocket_connect("/ws/streaming/a", headers={"cookie": f"access-token-x={token}"}) as socket:
                cached[name] = prefill(socket, ASK)["cached_tokens"]
                generate(socket)
    assert cached["ann"] == cached["bob"] == 0
    assert cached["ann again"] > 0


def test_pictures_with_other_pixels_share_nothing(client: TestClient) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        cached = []
        for shade in (10, 10, 180):
            parts = [{"type": "text", "text": "What is next?"}, picture(shade)]
            cached.append(prefill(socket, [{"role": "user", "content": parts}])["cached_tokens"])
            generate(socket)
    assert cached[0] == 0
    assert cached[1] == cached[2] + 1, "all but the last token, and all up to the picture"


def test_messages_may_come_in_parts(client: TestClient) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        system = [{"role": "system", "content": "Be brief."}]
        socket.send_json({"type": "prefill", "messages": system, "is_last_chunk": False})
        assert prefill(socket, ASK)["message_count"] == 2


def test_stop_ends_this_answer_and_no_other(checkpoint: Checkpoint) -> None:
    pool = WorkerPool([ChatWorker(checkpoint), ChatWorker(checkpoint)])
    with (
        TestClient(make_app(pool)) as client,
        client.websocket_connect("/ws/streaming/a") as first,
        client.websocket_connect("/ws/streaming/b") as second,
    ):
        prefill(first, ASK)
        prefill(second, ASK)
        first.send_json({"type": "stop"})
        assert receive(first, "done")["stopped"]
        _, done = generate(second)
        assert not done["stopped"]
        prefill(first, ASK)
        assert not generate(first)[1]["stopped"]


@pytest.mark.parametrize("phase", ["prefilling", "generating"])
def test_a_client_that_leaves_frees_its_worker(client: TestClient, pool: WorkerPool[ChatWorker], phase: str) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        prefill(socket, ASK)
        wanted, _ = generate(socket)
        long = [{"role": "user", "content": "What is next? " * 100}]
        socket.send_json({"type": "prefill", "messages": long if phase == "prefilling" else ASK})
        receive(socket, "queue_done" if phase == "prefilling" else "prefill_done")
        if phase == "generating":
            socket.send_json({"type": "generate", "max_new_tokens": 4000})
            receive(socket, "chunk")
    wait_until_free(pool)
    with client.websocket_connect("/ws/streaming/a") as socket:
        prefill(socket, ASK)
        assert generate(socket)[0] == wanted


def test_the_queue_reports_its_places_and_a_client_that_leaves_it_takes_no_worker(
    client: TestClient, pool: WorkerPool[ChatWorker]
) -> None:
    ask = {"type": "prefill", "messages": ASK}
    with client.websocket_connect("/ws/streaming/a") as running:
        prefill(running, ASK)
        with client.websocket_connect("/ws/streaming/b") as queued:
            queued.send_json(ask)
            assert receive(queued, "queued")["position"] == 1
            with client.websocket_connect("/ws/streaming/c") as refused:
                refused.send_json(ask)
                assert "try again" in refused.receive_json()["error"]
        generate(running)
    wait_until_free(pool)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"type": "sing"}, "tag"),
        ({"type": "prefill", "messages": [{"role": "assistant", "content": "x"}]}, "alternate"),
        ({"type": "generate"}, "send prefill first"),
        ([1], "message"),
    ],
)
def test_a_wrong_message_is_refused_and_the_connection_stays(client: TestClient, message: Any, reason: str) -> None:
    with client.websocket_connect("/ws/streaming/a") as socket:
        socket.send_json(message)
        answer = socket.receive_json()
        assert answer["type"] == "error"
        assert reason in answer["error"]
        socket.send_text("{")
        assert socket.receive_json()["type"] == "error"
        prefill(socket, ASK)


class _Speaker(ChatWorker):
    """A worker whose answer is fixed, in parts of one word."""

    def answer(self, *_: Any, **__: Any) -> Generator[AnswerEvent]:
        yield Prefilled(prompt_tokens=1, cached_tokens=0, prefilled_tokens=1)
        for number, word in enumerate(SPOKEN, 1):
            yield AnswerDelta(text=word, num_tokens=number)
        yield AnswerEnd(text="".join(SPOKEN), ids=(), is_stopped=False)


def test_each_sentence_of_an_answer_is_spoken_as_soon_as_it_is_complete(checkpoint: Checkpoint) -> None:
    pool = WorkerPool([_Speaker(checkpoint)])
    with TestClient(make_app(pool)) as client, client.websocket_connect("/ws/streaming/a") as socket:
        prefill(socket, ASK)
        socket.send_json({"type": "generate", "generate_audio": True})
        chunks = []
        while (message := socket.receive_json())["type"] == "chunk":
            chunks.append(message)
    parts = [(chunk["text_delta"], bool(chunk["audio_data"])) for chunk in chunks]
    text = [(word, False) for word in SPOKEN]
    assert parts == [*text[:1], ("", True), *text[1:6], ("", True), *text[6:], ("", True), ("", False)]
    assert {chunk["audio_sample_rate"] for chunk in chunks if chunk["audio_data"]} == {22_050}
    sound = base64.b64decode(chunks[1]["audio_data"])
    assert 0.2 < len(sound) / 2 / 22_050 < 1.5


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
def test_a_foreign_page_cannot_connect(client: TestClient, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws/streaming/a", headers=headers) as socket:
        socket.receive_json()


def test_a_page_with_a_login_asks_programs_for_it(pool: WorkerPool[ChatWorker]) -> None:
    with TestClient(make_app(pool, auth=[("ann", "x")])) as client:
        assert client.get("/cache").status_code == 401
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws/streaming/a") as socket:
            socket.receive_json()
        cookie = {"cookie": "access-token-x=secret"}
        assert client.get("/cache", headers=cookie).status_code == 200
        with client.websocket_connect("/ws/streaming/a", headers=cookie) as socket:
            prefill(socket, ASK)


def test_a_connection_ends_when_its_user_has_logged_out(pool: WorkerPool[ChatWorker]) -> None:
    app = make_app(pool, auth=[("ann", "x")])
    cookie = {"cookie": "access-token-x=secret"}
    with TestClient(app) as client, client.websocket_connect("/ws/streaming/a", headers=cookie) as socket:
        prefill(socket, ASK)
        vars(app)["tokens"].clear()
        socket.send_json({"type": "generate", "max_new_tokens": 4})
        found = socket.receive_json()
        assert (found["type"], found["error"]) == ("error", "Log in on the page first.")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_a_websocket_beyond_the_limit_is_refused_in_a_sentence(
    pool: WorkerPool[ChatWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_SOCKETS", (1, 1))
    with TestClient(make_app(pool)) as client:
        with client.websocket_connect("/ws/streaming/a"):
            with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/ws/streaming/b"):
                pass
            assert refused.value.status_code == 429
            assert refused.value.json()["detail"].startswith("Too many connections are open")
        with client.websocket_connect("/ws/streaming/c"):
            pass


CLIENT = ROOT / "docs" / "chat_client.py"


def test_the_documented_client_converses(pool: WorkerPool[ChatWorker]) -> None:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(make_app(pool), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        client = runpy.run_path(str(CLIENT))["ChatClient"]
        with client(f"ws://127.0.0.1:{port}") as chat:
            first = "".join(chat.ask("What is next?", max_new_tokens=6))
            assert chat.messages[-1] == {"role": "assistant", "content": first}
            list(chat.ask("And then?", max_new_tokens=6))
            assert chat.done["token_stats"]["cached_tokens"] > 0
        wait_until_free(pool)
    finally:
        server.should_exit = True
        thread.join(timeout=20)

"""Conversations that are too large are refused by their counts, before anything of them is decoded or kept."""

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from stepscope.app.api import messages as messages_module
from stepscope.app.api.messages import MAX_BYTES, Message, build_prompt, read_message
from stepscope.app.core.pictures import read_picture
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.prompt import MAX_TEXT_CHARS
from tests.support.chat_socket import ASK, generate, prefill
from tests.support.streams.odd import progressive_jpeg

TEXT_PART = {"type": "text", "text": ""}


def large_png(side: int = 4096) -> bytes:
    """Return a picture of few bytes and many pixels."""
    file = io.BytesIO()
    Image.new("L", (side, side)).save(file, "PNG", optimize=True)
    return file.getvalue()


def picture_part(content: bytes) -> dict[str, str]:
    return {"type": "image", "data": base64.b64encode(content).decode()}


def refuse(socket: Any, message: dict[str, Any]) -> str:
    socket.send_text(json.dumps(message))
    answer = socket.receive_json()
    assert answer["type"] == "error", answer
    return str(answer["error"])


def test_pictures_and_pixels_are_counted_before_one_is_decoded(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    monkeypatch.setattr(messages_module, "encode_pictures", lambda *values: decoded.append(values))
    part = picture_part(large_png())
    content = [{"role": "user", "content": [part] * 65}]
    with pytest.raises(ValueError, match="at most 64 pictures; got 65"):
        build_prompt(checkpoint, [Message.model_validate(message) for message in content])
    assert decoded == []
    message = {"role": "user", "content": [picture_part(large_png())] * 17}
    with pytest.raises(ValueError, match="at most 268435456 pixels together"):
        build_prompt(checkpoint, [Message.model_validate(message)])


def test_a_picture_of_many_scans_is_not_decoded() -> None:
    assert read_picture(progressive_jpeg(64, num_scans=20)).shape == (64, 64, 3)
    with pytest.raises(ValueError, match="a picture in JPEG has at most 100 scans"):
        read_picture(progressive_jpeg(64, num_scans=101))


def test_a_picture_of_huge_dimensions_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="at most 16777216 pixels; got 4097 x 4097"):
        read_picture(large_png(4097))


def test_a_message_of_too_many_parts_is_refused() -> None:
    message = {"type": "prefill", "messages": [{"role": "user", "content": [TEXT_PART] * 2001}] * 2}
    with pytest.raises(ValueError, match="at most"):
        read_message(json.dumps(message).encode())


def test_a_message_of_too_many_bytes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "load_json", lambda _: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=f"at most {MAX_BYTES} bytes"):
        read_message(b'"' + b"x" * MAX_BYTES)


def test_chunks_without_an_end_are_dropped_at_the_limit_of_one_conversation(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.app.api.socket.MAX_BYTES", 10_000)
    chunk = {"type": "prefill", "messages": [{"role": "user", "content": "x" * 3000}], "is_last_chunk": False}
    with client.websocket_connect("/ws/streaming/a") as socket:
        for _ in range(3):
            socket.send_json(chunk)
        assert "a conversation has at most 10000 bytes" in refuse(socket, chunk)
        assert prefill(socket, ASK)["message_count"] == 1, "the chunks before are dropped, and the connection goes on"
        generate(socket)


def test_pictures_and_parts_of_several_chunks_are_counted_together(client: TestClient) -> None:
    small = picture_part(large_png(8))
    half = {"type": "prefill", "messages": [{"role": "user", "content": [small] * 33}], "is_last_chunk": False}
    with client.websocket_connect("/ws/streaming/a") as socket:
        socket.send_json(half)
        assert "at most 64 pictures; got 66" in refuse(socket, half)
        many = {**half, "messages": [{"role": "user", "content": [TEXT_PART] * 2001}]}
        socket.send_json(many)
        assert "at most 4000 parts; got 4002" in refuse(socket, many)


def test_texts_that_no_context_can_hold_are_refused_before_they_are_split_into_tokens(checkpoint: Checkpoint) -> None:
    halves = [TEXT_PART | {"text": "a" * (MAX_TEXT_CHARS // 2)}] * 2
    message = Message.model_validate({"role": "user", "content": [*halves, TEXT_PART | {"text": "a"}]})
    with pytest.raises(ValueError, match="at most 131072 characters; got 131073"):
        build_prompt(checkpoint, [message])

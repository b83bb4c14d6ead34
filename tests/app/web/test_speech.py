"""The route that serves texts as speech."""

import io
import wave
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from stepscope.app.web.speech import ANSWER_URL, SPEECH_URL, speech_routes, to_wav
from stepscope.engine.speech.espeak import SAMPLE_RATE


def make_client(*, auth: Any = None, answer: Path | None = None) -> TestClient:
    app = Starlette(routes=speech_routes(lambda *asked: answer if asked == ("first", "kettle", 2) else None))
    for name, value in {
        "auth": auth,
        "tokens": {"secret": "ann"},
        "cookie_id": "x",
    }.items():  # as Gradio's app has them
        setattr(app, name, value)
    return TestClient(app)


def test_a_text_is_served_as_wav() -> None:
    response = make_client().get(f"/{SPEECH_URL}", params={"text": "Good. Now mount the block."})
    assert response.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(response.content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE)
        assert 1 < file.getnframes() / SAMPLE_RATE < 3


@pytest.mark.parametrize(("text", "status"), [("", 200), ("\x00", 200), ("x" * 1001, 400)])
def test_odd_texts_get_silence_or_a_sentence(text: str, status: int) -> None:
    response = make_client().get(f"/{SPEECH_URL}", params={"text": text})
    assert response.status_code == status
    assert status == 200 or response.text == "a spoken text has at most 1000 characters; got 1001."


def test_a_recorded_answer_is_served_as_wav_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "2.wav").write_bytes(to_wav(bytes(20)))
    client, asked = make_client(answer=tmp_path / "2.wav"), {"run": "first", "video": "kettle", "number": "2"}
    response = client.get(f"/{ANSWER_URL}", params=asked)
    assert (response.headers["content-type"], response.content) == ("audio/wav", to_wav(bytes(20)))
    for wrong in (
        {"number": "3"},
        {"number": "-1"},
        {"number": "\u00b2"},
        {"number": "9" * 9},
        {"run": ""},
        {"video": "x"},
    ):
        assert client.get(f"/{ANSWER_URL}", params=asked | wrong).status_code == 404
    assert make_client(auth=[("ann", "secret")]).get(f"/{ANSWER_URL}", params=asked).status_code == 401


def test_a_client_without_login_is_refused() -> None:
    client = make_client(auth=[("ann", "secret")])
    assert client.get(f"/{SPEECH_URL}", params={"text": "Hello"}).status_code == 401
    client.cookies.set("access-token-x", "secret")
    assert client.get(f"/{SPEECH_URL}", params={"text": "Hello"}).status_code == 200

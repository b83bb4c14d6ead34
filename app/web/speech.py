"""Serves texts as speech, for the player, which speaks responses when they occur."""

import io
import wave
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stepscope.app.formatting import as_sentence
from stepscope.app.security.identity import signed_in
from stepscope.engine.speech.espeak import SAMPLE_RATE, SpeechError, synthesize

SPEECH_URL: Final = "speech"
"""Address of spoken texts, relative to the page; the query ``text`` is the text."""


def to_wav(pcm: bytes) -> bytes:
    """Return samples of ``synthesize`` as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(pcm)
    return file.getvalue()


def _send(request: Request) -> Response:
    """Send a text as WAV. Starlette runs this in a thread."""
    if request.app.auth is not None and signed_in(request) is None:
        return PlainTextResponse("Log in on the page first.", 401)
    try:
        pcm = synthesize(request.query_params.get("text", ""))
    except ValueError as error:
        return PlainTextResponse(as_sentence(error), 400)
    except SpeechError as error:
        return PlainTextResponse(as_sentence(error), 503)
    return Response(to_wav(pcm), media_type="audio/wav", headers={"Cache-Control": "private, max-age=86400"})


def speech_routes() -> list[Route]:
    """Return the route that the page's server needs for ``SPEECH_URL``."""
    return [Route(f"/{SPEECH_URL}", _send)]

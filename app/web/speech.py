"""Serves texts as speech, and recorded answers, for the player, which speaks responses when they occur."""

import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from stepscope.app.formatting import as_sentence
from stepscope.app.security.identity import signed_in
from stepscope.engine.speech.espeak import SAMPLE_RATE, SpeechError, synthesize

SPEECH_URL: Final = "speech"
"""Address of spoken texts, relative to the page; the query ``text`` is the text."""


ANSWER_URL: Final = "answer"
"""Address of recorded answers, relative to the page; the queries ``run``, ``video`` and ``number`` name one."""
MAX_DIGITS: Final = 7
FindAnswer = Callable[[str, str, int], Path | None]
"""Returns the file of an answer by run, video and number."""


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


def speech_routes(find_answer: FindAnswer) -> list[Route]:
    """Return the routes that the page's server needs for ``SPEECH_URL`` and ``ANSWER_URL``."""

    def send_answer(request: Request) -> Response:
        if request.app.auth is not None and signed_in(request) is None:
            return PlainTextResponse("Log in on the page first.", 401)
        run, video, number = (request.query_params.get(name, "") for name in ("run", "video", "number"))
        path = find_answer(run, video, int(number)) if number.isdecimal() and len(number) < MAX_DIGITS else None
        if path is None:
            return PlainTextResponse("The run has no such recorded answer.", 404)
        return FileResponse(path, media_type="audio/wav", headers={"X-Content-Type-Options": "nosniff"})

    return [Route(f"/{SPEECH_URL}", _send), Route(f"/{ANSWER_URL}", send_answer)]

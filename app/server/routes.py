"""Routes of the program in the browser: ES modules, plotly.js, spoken texts, recorded answers and small pictures."""

import gzip
import io
import json
import wave
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import plotly
from anyio import CapacityLimiter, to_thread
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from stepscope.app.figures.charts.layout import PLOTLY_PATH
from stepscope.app.formatting import as_sentence
from stepscope.app.server.identity import signed_in
from stepscope.engine.speech.espeak import SAMPLE_RATE, SpeechError, synthesize

_NOT_LOADED: Final = "This part of the page did not load. Reload the page."


@dataclass(frozen=True, slots=True)
class Modules:
    """The ES modules of a folder, as they were when they were read."""

    sources: Mapping[str, bytes]
    """Their sources by their paths in the folder."""
    compressed: Mapping[str, bytes]
    """The same, compressed once: a first visit asks for all of them while the page's server is busy."""
    address: str
    """Address of the folder, relative to the page. It has a digest of all sources: browsers may keep them for ever."""

    @classmethod
    def read(cls, folder: Path) -> "Modules":
        """Read the modules of a folder and its subfolders."""
        sources = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.js"))}
        digest = sha256(repr(sources).encode()).hexdigest()[:16]
        compressed = {path: gzip.compress(source, compresslevel=5) for path, source in sources.items()}
        return cls(sources, compressed, f"stepscope/{digest}")

    def make_script(self, entry: str, *, events: Iterable[str] = (), settings: Mapping[str, Any] | None = None) -> str:
        """Return the ``js_on_load`` of a component: it calls ``mount`` of the module ``entry`` with Gradio's names.

        ``events`` are the names of those that the module triggers. ``settings`` are JSON values that never change,
        given to ``mount`` under this name. They are part of the script, because Gradio drops properties of a
        ``gr.HTML`` whose value is set before its tab is shown for the first time.
        """
        # Gradio offers the events whose names are quoted in the script, and runs it as the body of a function
        return f"""// triggers {json.dumps(list(events))}
import(new URL({json.dumps(f"{self.address}/{entry}")}, document.baseURI)).then(
  ({{ mount }}) => mount({{ element, trigger, props, server, watch, settings: {json.dumps(dict(settings or {}))} }}),
  () => {{ element.textContent = {json.dumps(_NOT_LOADED)}; }},
);
"""

    def make_preloads(self) -> str:
        """Return elements for the page's head, with which all modules load at once."""
        return "\n".join(f'<link rel="modulepreload" href="{self.address}/{path}">' for path in self.sources)

    def make_route(self) -> Route:
        """Return the route that the page's server needs. It asks for no login: the modules are no secret."""
        # one route, not one in a Mount: below a path, a proxy may strip it, and an inner route would not match the rest
        return Route(f"/{self.address}/{{path:path}}", self._send)

    async def _send(self, request: Request) -> Response:
        path = request.path_params["path"]
        if path not in self.sources:
            return PlainTextResponse("There is no such module.", 404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.sources[path], media_type="text/javascript", headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(self.compressed[path], media_type="text/javascript", headers=headers)


PLOTLY_URL: Final = f"stepscope/plotly-{plotly.__version__}.min.js"
"""Address of plotly.js, relative to the page. It has the version, so that browsers may keep the file for ever."""


def _send_plotly(request: Request) -> Response:
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return FileResponse(PLOTLY_PATH, media_type="text/javascript", headers=headers)


def plotly_routes() -> list[Route]:
    """Return the route that the page's server needs for ``PLOTLY_URL``."""
    # one route, not one in a Mount: below a path, a proxy may strip it, and an inner route would not match the rest
    return [Route(f"/{PLOTLY_URL}", _send_plotly, middleware=[Middleware(GZipMiddleware, compresslevel=5)])]


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


def _send_speech(request: Request) -> Response:
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

    return [Route(f"/{SPEECH_URL}", _send_speech), Route(f"/{ANSWER_URL}", send_answer)]


PICTURE_URL: Final = "picture"
"""Address of small pictures, relative to the page; the queries ``run``, ``video`` and ``time`` name one."""
MAX_DECODERS: Final = 2
"""Pictures that are decoded at once: a list asks for many, and all other requests share the threads."""
FindPicture = Callable[[str, str, float], bytes | None]
"""Returns a JPEG by run, video and second."""


def picture_routes(find_picture: FindPicture) -> list[Route]:
    """Return the route that the page's server needs for ``PICTURE_URL``."""
    limit = CapacityLimiter(MAX_DECODERS)

    async def send_picture(request: Request) -> Response:
        if request.app.auth is not None and signed_in(request) is None:
            return PlainTextResponse("Log in on the page first.", 401)
        run, video, time = (request.query_params.get(name, "") for name in ("run", "video", "time"))
        try:
            content = await to_thread.run_sync(find_picture, run, video, float(time), limiter=limit)
        except ValueError:  # no number, or a damaged run
            content = None
        if content is None:
            return PlainTextResponse("The run has no such picture.", 404)
        headers = {"Cache-Control": "private, max-age=3600"}
        return Response(content, media_type="image/jpeg", headers=headers)

    return [Route(f"/{PICTURE_URL}", send_picture)]

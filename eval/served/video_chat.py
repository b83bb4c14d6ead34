"""Client of vLLM-Omni's ``ws /v1/video/chat/stream``.

The client sends ``session.config``, ``video.frame``, ``video.query`` and ``video.done``; the server answers a query
with ``response.start``, ``response.text.delta`` and ``response.text.done``.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from stepscope.eval.served.answers import MAX_CHARS, Completion, NoAnswer, describe_error, read_text
from stepscope.eval.served.chat import (
    LOADING_CURE,
    MAX_BYTES,
    RETRIED_STATUSES,
    Endpoint,
    NoAnswerError,
    RequestPace,
    ServedModelError,
    backoff_s,
    clean_answer,
    hide_key,
    read_authorization,
)
from stepscope.eval.served.prompts import to_base64

PATH: Final = "/v1/video/chat/stream"
_CLOSE_TIMEOUT_S: Final = 1.0
_LOGGER: Final = logging.getLogger(f"{__name__}.websockets")
_LOGGER.setLevel(logging.INFO)  # at the level DEBUG the library logs the headers of a request, which hold the key


class VideoChat:
    """An open session with a model, which answers in text; ``open_video_chat`` makes it."""

    def __init__(self, connection: ClientConnection, endpoint: Endpoint, *, pace: RequestPace, system: str) -> None:
        self._connection, self._timeout_s, self._pace = connection, endpoint.timeout_s, pace
        self._num_retries, self._sleep = endpoint.num_retries, pace.sleep
        self._system = f"{system}\n" if system else ""
        self._send({"type": "session.config", "model": endpoint.model, "modalities": ["text"]})

    def see(self, picture: bytes, *, time_s: float) -> None:
        """Send one JPEG picture."""
        self._send({"type": "video.frame", "data": to_base64(picture), "format": "jpeg", "timestamp": time_s})

    def ask(self, text: str) -> Completion:
        """Return the answer to a text about the frames so far, after the system prompt.

        A query is repeated if the error that it gets names a reason that may pass.
        """
        attempt = 0
        while True:
            self._pace.wait_for_turn()
            self._send({"type": "video.query", "text": f"{self._system}{text}"})
            answer = self._read_answer()
            if isinstance(answer, Completion):
                return clean_answer(answer)
            if answer.status not in RETRIED_STATUSES or attempt == self._num_retries:
                kind = NoAnswerError if answer.status is None else ServedModelError
                raise kind(f"the endpoint gives no answer: {hide_key(answer.problem)}")
            self._sleep(backoff_s(attempt))
            attempt += 1

    def _read_answer(self) -> Completion | NoAnswer:
        texts = {"response.text.delta": "", "response.reasoning.delta": ""}
        until_s = time.monotonic() + self._timeout_s
        while True:
            event = self._receive(until_s)
            kind, delta = str(event.get("type")), event.get("delta")
            if kind in texts and isinstance(delta, str):
                texts[kind] = (texts[kind] + delta)[: MAX_CHARS + 1]  # one more, so that ``read_text`` refuses it
            elif kind == "response.text.done":
                whole, finish = event.get("text"), event.get("finish_reason")
                return read_text(
                    whole if isinstance(whole, str) else texts["response.text.delta"],
                    finish=finish if isinstance(finish, str) else "stop",
                    thought=texts["response.reasoning.delta"],
                )
            elif kind == "error":
                return describe_error(event.get("error") or event)

    def ask_yes(self, question: str) -> float:
        """Return nan: the stream gives no probabilities."""
        return math.nan

    def close(self) -> None:
        """End the session."""
        self._send({"type": "video.done"})

    def _send(self, event: dict[str, Any]) -> None:
        with _translated():
            self._connection.send(json.dumps(event))

    def _receive(self, until_s: float) -> dict[str, Any]:
        with _translated():
            if (left_s := until_s - time.monotonic()) <= 0:  # ``recv`` returns a waiting event at any timeout
                raise TimeoutError
            content = self._connection.recv(timeout=left_s)
        try:
            event = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ServedModelError("the endpoint sends an event that is not JSON") from error
        return event if isinstance(event, dict) else {}


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (WebSocketException, OSError) as error:
        if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
            raise ServedModelError("the endpoint gives no answer in time; raise --timeout-s") from error
        is_loading = isinstance(error, ConnectionRefusedError) or "HTTP 503" in str(error)
        cure = LOADING_CURE if is_loading else ""
        raise ServedModelError(f"the connection to the endpoint fails: {hide_key(str(error))}{cure}") from error


@contextmanager
def open_video_chat(
    endpoint: Endpoint,
    *,
    system: str = "",
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[VideoChat]:
    """Open a session at a WebSocket address, and end it at the end of the block. Raises ``ServedModelError``.

    A server that is busy or not up yet is called again; a session that breaks is not, because its frames are lost.
    """
    with _connect(endpoint, sleep) as connection:
        pace = RequestPace(endpoint.requests_per_minute, sleep=sleep, clock=clock)
        chat = VideoChat(connection, endpoint, pace=pace, system=system)
        yield chat
        with suppress(ServedModelError):  # all answers are there
            chat.close()


def _connect(endpoint: Endpoint, sleep: Callable[[float], None]) -> ClientConnection:
    """Return a connection, after the retries of the endpoint."""
    url = endpoint.url if urlsplit(endpoint.url).path.strip("/") else f"{endpoint.url.rstrip('/')}{PATH}"
    headers = read_authorization()
    limits: dict[str, Any] = {
        "open_timeout": endpoint.timeout_s,
        "close_timeout": _CLOSE_TIMEOUT_S,
        "max_size": MAX_BYTES,
    }
    attempt = 0
    with _translated():
        while True:
            try:
                connection: ClientConnection = connect(url, additional_headers=headers, logger=_LOGGER, **limits)
                connection.socket.settimeout(endpoint.timeout_s)  # a server that reads nothing blocks ``send``
                return connection
            except (OSError, InvalidStatus) as error:
                is_final = isinstance(error, InvalidStatus) and error.response.status_code not in RETRIED_STATUSES
                if is_final or attempt == endpoint.num_retries:
                    raise
            sleep(backoff_s(attempt))
            attempt += 1

"""Client of an OpenAI-compatible endpoint, ``POST <url>/chat/completions``.

The key is read from the environment and sent to that endpoint only; no file, message or log has it.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import load_json, replace_surrogates, to_json

KEY_VARIABLES: Final = ("STEPSCOPE_API_KEY", "OPENAI_API_KEY")
"""Environment variables of the key, in order of preference."""
RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED_STATUSES: Final = frozenset({400, 422, 501})
"""Statuses of a server that does not take a part of the request."""
_JSON: Final = {"Content-Type": "application/json"}
_STREAMS: Final = ("ws", "wss")
_MAX_WAIT_S: Final = 60.0
_MASK: Final = "***"
_MAX_SHOWN: Final = 200
MAX_BYTES: Final = 2**22
"""Maximum size of a response in bytes, after it is decompressed."""
MAX_CHARS: Final = 100_000
"""Maximum length of an answer."""


class ServedModelError(EngineError):
    """A served model cannot be reached, or gives no valid answer."""


class _RefusedError(ServedModelError):
    """A request is refused for its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address and limits of a served model."""

    url: str
    """Base address, such as ``http://localhost:8000/v1``; or the address of a stream, ``ws://``."""
    model: str
    timeout_s: float = 60.0
    """Time limit of one request, in seconds."""
    num_retries: int = 3
    """Repeats of a request that failed for a reason that may pass."""
    requests_per_minute: float | None = None
    """Limit of requests; None for no limit."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an address or a limit that is not possible."""
        _check_url(self.url)
        if not self.timeout_s > 0 or self.num_retries < 0 or (self.requests_per_minute or 1) <= 0:
            raise ValueError("the time-out and the requests per minute must be positive, and the retries at least 0")

    @property
    def is_stream(self) -> bool:
        """Whether it is a WebSocket, in contrast to an endpoint that is polled."""
        return urlsplit(self.url).scheme in _STREAMS


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", *_STREAMS) or not parts.hostname:
        raise ValueError(f"the endpoint must be an address such as http://localhost:8000/v1; got {hide_key(url)}")
    key = read_key()
    if parts.username or parts.password or parts.query or parts.fragment or (key and key in url):
        raise ValueError(f"the endpoint must have no key or password in its address; set {KEY_VARIABLES[0]} instead")


def read_key() -> str:
    """Return the key from the environment; empty without one. Raises ``ValueError`` for one that no header can hold."""
    name, key = next(((name, key) for name in KEY_VARIABLES if (key := os.environ.get(name, "").strip())), ("", ""))
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"the key in ${name} has characters that are not printable ASCII; set it again")
    return key


def read_authorization() -> dict[str, str]:
    """Return the header of a request with the key; empty without one."""
    key = read_key()
    return {"Authorization": f"Bearer {key}"} if key else {}


def mask_key(text: str) -> str:
    """Return a text of a server without the key, which a server may repeat."""
    key = read_key()
    return text.replace(key, _MASK) if key else text


def hide_key(text: str) -> str:
    """Return a text for a message: without the key and control characters, cut to a line."""
    line = " ".join(mask_key(text).split())[:_MAX_SHOWN]
    return "".join(char if char.isprintable() else "?" for char in line)


@dataclass(slots=True)
class RequestPace:
    """Keeps requests to a number per minute, evenly spaced."""

    requests_per_minute: float | None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _next_s: float = field(default=-1e9, init=False)

    def wait_for_turn(self) -> None:
        """Sleep until the next request may be sent."""
        if self.requests_per_minute is None:
            return
        now_s = self.clock()
        if now_s < self._next_s:
            self.sleep(self._next_s - now_s)
        self._next_s = max(now_s, self._next_s) + 60 / self.requests_per_minute


def backoff_s(attempt: int) -> float:
    """Return the wait after a failed attempt, counted from 0: 1 s, 2 s, 4 s and so on, at most a minute."""
    return min(2.0**attempt, _MAX_WAIT_S)


TOP_LOGPROBS: Final = 20
"""Alternatives of each token that are asked for, the most that OpenAI-compatible servers give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProbs:
    """A token of an answer, with the probabilities of its most likely alternatives by their texts."""

    text: str
    prob: float
    top: Mapping[str, float]


def read_token_probs(choice: Mapping[str, Any]) -> tuple[TokenProbs, ...]:
    """Return the tokens of an answer's ``choices[0]``; none if the server gives no logprobs, or invalid ones."""
    try:
        content = choice["logprobs"]["content"]
        return tuple(
            TokenProbs(
                text=str(token["token"]),
                prob=_prob(token["logprob"]),
                top={str(other["token"]): _prob(other["logprob"]) for other in token["top_logprobs"]},
            )
            for token in content
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()


def _prob(logprob: object) -> float:
    if not isinstance(logprob, int | float) or not logprob <= 1e-6:  # not for nan either
        raise ValueError("a logprob is a number up to 0")
    return min(1.0, math.exp(logprob))


def read_silence_prob(tokens: Sequence[TokenProbs], silence: str) -> float:
    """Return the probability that an answer is the words of silence; nan if it is unknown.

    It is the product over the tokens up to the one that leaves these words; there, it is the sum over the alternatives
    that go on with them. Later tokens of the alternatives are unknown, so that it is at most that.

    Worked example, for ``SILENT`` and the answer ``SIn``: .4 for ``SI`` and, at ``n``, .1 for ``LENT`` and .05 for
    ``L`` give .4 * (.1 + .05) = .06.
    """
    if not tokens:
        return math.nan
    rest, prob = silence.strip().casefold(), 1.0
    for number, token in enumerate(tokens):

        def clean(text: str, is_first: bool = number == 0) -> str:
            return text.casefold().lstrip() if is_first else text.casefold()

        def goes_on(text: str, rest: str = rest) -> bool:
            return bool(text) and (rest.startswith(text) or text.startswith(rest))

        if not goes_on(clean(token.text)):
            return prob * min(1.0, sum(one for text, one in token.top.items() if goes_on(clean(text))))
        prob *= token.prob
        rest = rest[len(clean(token.text)) :]
        if not rest:
            break
    return prob


def read_yes_prob(tokens: Sequence[TokenProbs]) -> float:
    """Return P(yes) / (P(yes) + P(no)) at the first token, over all spellings; nan if neither is known."""
    words = [(text.strip().casefold(), prob) for text, prob in (tokens[0].top.items() if tokens else ())]
    yes, no = (sum(prob for text, prob in words if text == word) for word in ("yes", "no"))
    return yes / (yes + no) if yes + no > 0 else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer of a served model."""

    text: str
    tokens: tuple[TokenProbs, ...] = ()
    """Its tokens with their probabilities; none if they are not asked for, or the server gives none."""


@dataclass(slots=True)
class ChatClient:
    """Sends chats to an endpoint, with retries and a limit of requests; use it in a ``with`` block."""

    endpoint: Endpoint
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _has_logprobs: bool = field(default=True, init=False)
    _pace: RequestPace = field(init=False)
    _http: httpx.AsyncClient = field(init=False)
    _runner: asyncio.Runner = field(init=False)

    def __post_init__(self) -> None:
        """Make the pool of connections."""
        self._pace = RequestPace(self.endpoint.requests_per_minute, sleep=self.sleep, clock=self.clock)
        self._http = httpx.AsyncClient(timeout=self.endpoint.timeout_s)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        with self._runner as runner:
            runner.run(self._http.aclose())

    def complete(
        self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, needs_logprobs: bool = False
    ) -> Completion:
        """Return the answer to a chat, with the probabilities of its tokens if they are needed and the server has any.

        A server that refuses ``logprobs`` is asked again without them. Raises ``ServedModelError`` if there is no
        answer after all retries.
        """
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": messages, "max_tokens": max_tokens}
        body["temperature"] = 0
        if needs_logprobs and self._has_logprobs:
            try:
                return self._complete({**body, "logprobs": True, "top_logprobs": TOP_LOGPROBS})
            except _RefusedError:
                answer = self._complete(body)
                self._has_logprobs = False  # only now: another reason would have refused this one too
                return answer
        return self._complete(body)

    def _complete(self, body: Mapping[str, Any]) -> Completion:
        problem = ""
        for attempt in range(self.endpoint.num_retries + 1):
            self._pace.wait_for_turn()
            wait_s = backoff_s(attempt)
            try:
                response = self._runner.run(self._post(body))
            except TimeoutError:
                problem = "the whole answer took longer than --timeout-s"
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = hide_key(f"{type(error).__name__}: {error}")
            else:
                if response.is_success:
                    return _read_answer(response)
                problem = hide_key(f"status {response.status_code}: {response.text}")
                if response.status_code in _REFUSED_STATUSES:
                    raise _RefusedError(f"{self.endpoint.url} gives no answer: {problem}")
                if response.status_code not in RETRIED_STATUSES:
                    break
                wait_s = _read_retry_after(response, default_s=wait_s)
            if attempt < self.endpoint.num_retries:
                self.sleep(wait_s)
        raise ServedModelError(f"{self.endpoint.url} gives no answer: {problem}")

    async def _post(self, body: Mapping[str, Any]) -> httpx.Response:
        """Return a response. Raises ``TimeoutError`` after the time limit of the whole, and as ``_read_body``.

        The time limit of httpx is that of one read, which a server that sends a byte now and then never reaches.
        """
        headers = {"Accept-Encoding": "identity", **read_authorization()} | _JSON
        url, content = f"{self.endpoint.url.rstrip('/')}/chat/completions", to_json(body).encode()
        async with (
            asyncio.timeout(self.endpoint.timeout_s),
            self._http.stream("POST", url, content=content, headers=headers) as response,
        ):
            content = await _read_body(response)
            wait = response.headers.get("retry-after", "")
            headers = {"retry-after": wait} if wait.isascii() else {}
            return httpx.Response(response.status_code, headers=headers, content=content)


async def _read_body(response: httpx.Response) -> bytes:
    """Return the body of a response. Raises ``ServedModelError`` if it is too large or compressed.

    A small part of a compressed body can hold gigabytes; the request asks for a plain one.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ServedModelError("the endpoint answers with a compressed body, which the request does not accept")
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MAX_BYTES:
            raise ServedModelError(f"the endpoint answers with more than {MAX_BYTES // 2**20} MiB")
        parts.append(part)
    return b"".join(parts)


def _read_retry_after(response: httpx.Response, *, default_s: float) -> float:
    value = response.headers.get("retry-after", "")
    try:
        is_number = value.strip().replace(".", "", 1).isdigit()
        wait_s = float(value) if is_number else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):  # the last for a year or zone of many digits
        return default_s
    return min(max(wait_s, 0.0), _MAX_WAIT_S)


def _read_answer(response: httpx.Response) -> Completion:
    try:
        choice = load_json(response.content.decode())["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ServedModelError(
            f"the endpoint answers in a form without choices[0].message.content: {hide_key(response.text)}"
        ) from error
    if not isinstance(content, str | None):
        raise ServedModelError("the endpoint answers with a content that is no text")
    return Completion(text=read_text_answer(content or ""), tokens=read_token_probs(choice))


def read_text_answer(text: str) -> str:
    """Return an answer without the key and lone surrogates. Raises ``ServedModelError`` for one that is too long."""
    if len(text) > MAX_CHARS:
        raise ServedModelError(f"the endpoint answers with more than {MAX_CHARS} characters")
    return replace_surrogates(mask_key(text))

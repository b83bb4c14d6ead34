"""Client of an OpenAI-compatible endpoint, ``POST <url>/chat/completions``.

The key is read from the environment and sent to that endpoint only; no file, message or log has it.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import load_json, replace_surrogates, to_json
from stepscope.eval.served.answers import Completion, NoAnswer, read_response

KEY_VARIABLES: Final = ("STEPSCOPE_API_KEY", "OPENAI_API_KEY")
"""Environment variables of the key, in order of preference."""
RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REFUSED_STATUSES: Final = frozenset({400, 422, 501})
"""Statuses of a server that does not take a part of the request."""
_JSON: Final = {"Content-Type": "application/json"}
_MAX_CHANGES: Final = 6
"""Changes of a run's requests: each parameter is left out at most once, and limited before."""
_STREAMS: Final = ("ws", "wss")
_MAX_WAIT_S: Final = 60.0
_MASK: Final = "***"
_POLL_S: Final = 0.2
"""Seconds after which a request that waits looks whether it is cancelled."""
_MAX_SHOWN: Final = 200
MAX_BYTES: Final = 2**22
"""Maximum size of a response in bytes, after it is decompressed."""


class ServedModelError(EngineError):
    """A served model cannot be reached, or gives no valid answer."""


class NoAnswerError(ServedModelError):
    """A served model responds without an answer, so that its video fails."""

    exit_code = 1


class RefusedError(ServedModelError):
    """A request is refused for its content."""

    def __init__(self, message: str, *, refusal: str) -> None:
        super().__init__(message)
        self.refusal = refusal


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


def make_endpoint(options: Any) -> Endpoint:
    """Return the endpoint of a command's options. Raises ``ValueError`` for a WebSocket."""
    limits = {"timeout_s": options.timeout_s, "num_retries": options.retries}
    endpoint = Endpoint(url=options.endpoint, model=options.model, **limits)
    if endpoint.is_stream:
        raise ValueError(f"--endpoint must be an http:// or https:// address; got {options.endpoint}")
    return endpoint


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
_NUMBER: Final = re.compile(r"(?<![\w.-])[0-9]{1,6}(?![\w-]|\.[0-9])")
_NEW_NAME: Final = re.compile(r"\bmax_(?:completion|output|new)_tokens\b")
_TOO_MANY: Final = re.compile(r"(?i)(most|max\w*|limit|only|up to|too many|more than)\b.{0,80}(image|picture)|limit.mm")
LOADING_CURE: Final = "; if the server is still loading, raise --retries"
_LOADING: Final = re.compile(r"(?i)loading|warming|not ready|ConnectError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a server wants changed in a request."""

    name: str
    value: str | float | None
    """A new name, the highest value, or None to leave the parameter out."""

    def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request with the change."""
        changed = dict(body)
        if self.name not in body:
            return changed
        if isinstance(self.value, str):
            changed[self.value] = changed.pop(self.name)
        elif self.value is not None:
            changed[self.name] = min(body[self.name], self.value) or self.value
        else:
            del changed[self.name]
            if self.name == "logprobs":
                changed.pop("top_logprobs", None)
        return changed


def find_change(body: Mapping[str, Any], refusal: str) -> Change | None:
    """Return what a server wants changed that refuses a request; None if it names nothing that may change.

    A server that names no parameter may refuse the logprobs.
    """
    fixed = ("model", "messages", "tools")
    named = [name for name in body if name not in fixed and re.search(rf"\b{name}\b", refusal)]
    is_about_logprobs = re.search("logprobs|top_n_tokens", refusal)
    if "logprobs" in body and (is_about_logprobs or not named):
        limit = read_limit(refusal, below=body.get("top_logprobs", 0)) if is_about_logprobs else 0
        return Change(name="top_logprobs", value=limit) if limit else Change(name="logprobs", value=None)
    if not named or re.search(r"(?i)context.{0,20}(length|window|size)", refusal):
        return None  # a request that is too long names its limit of tokens
    name = min(named, key=refusal.index)
    if name == "temperature":
        is_positive = re.search(r"(?i)positive|greater than 0|> ?0", refusal) and not body[name]
        return Change(name=name, value=0.01 if is_positive else None)
    new_name = _NEW_NAME.search(refusal)
    if new_name and new_name[0] not in body:
        return Change(name=name, value=new_name[0])
    return Change(name=name, value=read_limit(refusal, below=body[name]) or None)


def read_limit(text: str, *, below: int) -> int:
    """Return the largest number of a text that is below a refused one; 0 without any."""
    return max((number for number in map(int, _NUMBER.findall(text)) if number < below), default=0)


@dataclass(slots=True)
class ChatClient:
    """Sends chats to an endpoint, with retries and a limit of requests; use it in a ``with`` block."""

    endpoint: Endpoint
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    is_judge: bool = False
    """Whether it grades or answers questions, so that the options of a recording do not apply."""
    is_cancelled: Callable[[], bool] = bool
    """Whether a request that is sent must end without an answer."""
    _changes: list[Change] = field(default_factory=list, init=False)
    """What the server wants changed in every request."""
    _is_opened_by_prompt: bool = field(default=False, init=False)
    _pace: RequestPace = field(init=False)
    _http: httpx.AsyncClient = field(init=False)
    _runner: asyncio.Runner = field(init=False)

    def __post_init__(self) -> None:
        self._pace = RequestPace(self.endpoint.requests_per_minute, sleep=self.sleep, clock=self.clock)
        self._http = httpx.AsyncClient(timeout=self.endpoint.timeout_s)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._runner as runner:
            runner.run(self._http.aclose())

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        needs_logprobs: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Completion:
        """Return the answer to a chat, with the probabilities of its tokens if they are needed and the server has any.

        ``tools`` are functions, with the keys of OpenAI, which the answer may call. A server that refuses another
        parameter is asked as it wants, then and later. Raises ``ServedModelError`` if there is no response after all
        retries, and ``NoAnswerError`` for one without an answer.
        """
        body: dict[str, Any] = {"model": self.endpoint.model, "messages": messages, "max_tokens": max_tokens}
        body["temperature"] = 0
        if needs_logprobs:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        if tools:
            body["tools"] = tools
        for change in self._changes:
            body = change.apply(body)
        while True:
            try:
                return self._complete(body)
            except RefusedError as error:
                wanted = find_change(body, error.refusal)
                if wanted is None or len(self._changes) == _MAX_CHANGES:
                    raise
                body = wanted.apply(body)
                self._changes.append(wanted)

    def _complete(self, body: Mapping[str, Any]) -> Completion:
        problem = ""
        for attempt in range(self.endpoint.num_retries + 1):
            self._pace.wait_for_turn()
            wait_s = backoff_s(attempt)
            try:
                response = self._runner.run(self._post_until_cancelled(body))
            except TimeoutError:
                cure = "" if self.is_judge else "; raise --timeout-s"
                problem = f"the whole answer took longer than {self.endpoint.timeout_s:g} s{cure}"
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                problem = hide_key(f"{type(error).__name__}: {error}")
            else:
                status = response.status_code
                problem = hide_key(f"status {status}: {response.text}")
                if response.is_success:
                    answer = self._read(response, has_tools="tools" in body)
                    if isinstance(answer, Completion):
                        return answer
                    status = answer.status or status
                    problem = hide_key(answer.problem)
                    if answer.status is None:
                        raise NoAnswerError(self._explain(problem, body, is_cut=answer.is_cut))
                if "content_filter" in response.text and not response.is_success:
                    raise NoAnswerError(self._explain(problem, body))
                is_forbidden = status == 403 and "logprobs" in response.text  # this model may not give them
                if status in _REFUSED_STATUSES or is_forbidden:
                    raise RefusedError(self._explain(problem, body), refusal=response.text)
                if status not in RETRIED_STATUSES:
                    break
                wait_s = _read_retry_after(response, default_s=wait_s)
            if attempt < self.endpoint.num_retries:
                self.sleep(wait_s)
        raise ServedModelError(self._explain(problem, body))

    def _read(self, response: httpx.Response, *, has_tools: bool) -> Completion | NoAnswer:
        """Return the answer of a response without the key. Raises ``NoAnswerError`` for one that is no JSON."""
        try:
            payload = load_json(response.content.decode())
        except ValueError as error:
            is_stream = response.text.lstrip().startswith(("data:", "event:"))
            cure = "switch off its streaming" if is_stream else "check that its address ends in /v1"
            raise NoAnswerError(f"the endpoint answers with no JSON; {cure}: {hide_key(response.text)}") from error
        answer = read_response(payload, is_opened_by_prompt=self._is_opened_by_prompt, has_tools=has_tools)
        if isinstance(answer, NoAnswer):
            return answer
        self._is_opened_by_prompt |= answer.is_opened_by_prompt
        return clean_answer(answer)

    def _explain(self, problem: str, body: Mapping[str, Any], *, is_cut: bool = False) -> str:
        """Return the sentence of an error, with its cure if there is one."""
        cure, num_pictures = "", to_json(body["messages"]).count('"image_url":')
        if is_cut:
            limit = next((value for name, value in body.items() if name.startswith("max_")), "unknown")
            option = "choose a model that thinks less" if self.is_judge else "raise --max-new-tokens"
            cure = f" (it is {limit}); {option}"
        elif num_pictures > 1 and _TOO_MANY.search(problem):
            cure = f"; give --pictures {read_limit(problem, below=num_pictures) or 1}"
        elif _LOADING.search(problem) and not self.is_judge:
            cure = LOADING_CURE
        return f"{self.endpoint.url} gives no answer: {problem}{cure}"

    async def _post_until_cancelled(self, body: Mapping[str, Any]) -> httpx.Response:
        """Return a response as ``_post``. Raises ``ServedModelError`` once it is cancelled, and closes the request."""
        request = asyncio.create_task(self._post(body))
        while not request.done():
            await asyncio.wait([request], timeout=_POLL_S)
            if self.is_cancelled():
                request.cancel()
                raise ServedModelError("the request was cancelled")
        return request.result()

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


def clean_answer(answer: Completion) -> Completion:
    """Return an answer without the key and lone surrogates."""
    thought = answer.reasoning and replace(answer.reasoning, text=replace_surrogates(mask_key(answer.reasoning.text)))
    return replace(answer, text=replace_surrogates(mask_key(answer.text)), reasoning=thought)

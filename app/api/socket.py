"""Routes for programs: conversations over the WebSocket ``/ws/streaming/{session_id}``, and the state of the workers.

The client sends ``prefill``, ``generate``, ``stop`` and ``close``; docs/chat.md lists all messages. Each prompt enters
the same queue as the questions of the page. A client that leaves frees its worker after the running pass. The routes
need the page's login.
"""

import asyncio
import base64
import time
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from stepscope.app.api.messages import (
    MAX_BYTES,
    Close,
    Generate,
    Message,
    Prefill,
    Stop,
    build_prompt,
    check_conversation,
    has_pictures,
    read_message,
)
from stepscope.app.formatting import as_sentence
from stepscope.app.server.identity import signed_in
from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled
from stepscope.engine.chat.pool import PoolStatus, WorkerPool
from stepscope.engine.chat.service import AnswerRequest, ChatService, Leased, QueuePlace
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.speech.espeak import MAX_CHARS as MAX_SPOKEN_CHARS
from stepscope.engine.speech.espeak import SAMPLE_RATE, SentenceBuffer, synthesize


def chat_routes(service: ChatService[Any], checkpoint: Checkpoint) -> list[BaseRoute]:
    """Return the routes of a page's server, from ``/ws/streaming/{session_id}`` to ``/cache``."""
    pool = service.pool
    encoder = ThreadPoolExecutor(1, thread_name_prefix="chat-pictures")
    reader = ThreadPoolExecutor(1, thread_name_prefix="chat-messages")
    turns = WeakValueDictionary[str, asyncio.Lock]()

    async def connect(socket: WebSocket) -> None:
        if _is_refused(socket):
            await socket.close(1008)
            return
        await ChatSocket(socket, service, checkpoint=checkpoint, encoder=encoder, reader=reader, turns=turns).serve()

    return [
        WebSocketRoute("/ws/streaming/{session_id}", connect),
        _report("/status", pool, _describe_pool),
        _report("/workers", pool, lambda status: [asdict(worker) for worker in status.workers]),
        _report("/cache", pool, lambda status: {worker.name: asdict(worker.store) for worker in status.workers}),
    ]


def _report(path: str, pool: WorkerPool[Any], describe: Callable[[PoolStatus], Any]) -> Route:
    async def send(request: Request) -> Response:
        if _is_refused(request):
            return JSONResponse({"detail": "Log in on the page first."}, 401)
        return JSONResponse(describe(pool.status))

    return Route(path, send)


def _describe_pool(status: PoolStatus) -> dict[str, Any]:
    return {
        "num_workers": len(status.workers),
        "num_idle": sum(worker.is_idle for worker in status.workers),
        "num_queued": status.num_queued,
        "max_queued": status.max_queued,
        "mean_answer_s": round(status.mean_answer_s, 3),
    }


def _is_refused(connection: HTTPConnection) -> bool:
    """Return whether the page has a login that this client lacks."""
    return connection.app.auth is not None and signed_in(connection) is None


@dataclass(slots=True, kw_only=True)
class _SocketRequest(AnswerRequest):
    """One prompt of a connection, from ``prefill`` to ``done``."""

    began: float = field(default_factory=time.perf_counter)
    sentences: SentenceBuffer | None = None
    """Finds the sentences of the answer if the client requested audio: each is spoken as soon as it is complete."""
    is_answered: bool = False
    """Whether its last message was sent; only then is a further prompt accepted."""


class ChatSocket:
    """Serves one connection.

    ``encoder`` is a thread for the pictures of prompts, and ``reader`` one for messages: a long one must not hold up
    the answers of other clients, and takes memory until it is read. ``turns`` are locks by owner: one prompt of an
    owner at a time enters the encoder.
    """

    def __init__(
        self,
        socket: WebSocket,
        service: ChatService[Any],
        *,
        checkpoint: Checkpoint,
        encoder: ThreadPoolExecutor,
        reader: ThreadPoolExecutor,
        turns: MutableMapping[str, asyncio.Lock],
    ) -> None:
        self._socket, self._service, self._checkpoint = socket, service, checkpoint
        self._encoder, self._reader = encoder, reader
        user = signed_in(socket)  # an address is no owner: behind a proxy, all clients have that of the proxy
        self._owner = f"connection {uuid4().hex}" if user is None else f"user {user}"
        self._encoding = turns.setdefault(self._owner, asyncio.Lock())
        self._session_id = str(socket.path_params.get("session_id", ""))
        self._messages: list[Message] = []
        self._num_bytes = 0
        self._request: _SocketRequest | None = None
        self._task: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Answer the client's messages until it leaves."""
        await self._socket.accept()
        try:
            loop = asyncio.get_running_loop()
            while (received := await self._socket.receive())["type"] != "websocket.disconnect":
                if _is_refused(self._socket):  # the user logged out, which ends the connection, too
                    await self._send("error", error="Log in on the page first.")
                    break
                content = received.get("bytes") or (received.get("text") or "").encode()
                try:
                    message = await loop.run_in_executor(self._reader, read_message, content)
                    if isinstance(message, Close):
                        break
                    self._handle(message, num_bytes=len(content))
                except ValueError as error:  # invalid JSON is one
                    await self._send("error", error=as_sentence(error))
        except (WebSocketDisconnect, RuntimeError):  # left amid an answer
            pass
        finally:
            await self._leave()
            with suppress(RuntimeError, WebSocketDisconnect):  # the latter if its connection broke
                await self._socket.close()

    def _handle(self, message: Prefill | Generate | Stop, *, num_bytes: int) -> None:
        is_running = self._request is not None and not self._request.is_answered
        if isinstance(message, Stop):
            if self._request is not None:
                self._request.stop()
        elif isinstance(message, Generate):
            if self._request is None or not is_running or self._request.is_started:
                raise ValueError("there is nothing to generate; send prefill first")
            self._request.sentences = SentenceBuffer() if message.generate_audio else None
            self._request.start(message.max_new_tokens)
        elif is_running:
            raise ValueError("the last answer is still being written; wait for done, or send stop")
        else:
            self._add_chunk(message.messages, num_bytes)
            if message.is_last_chunk:
                messages = self._drop_chunks()
                self._request = _SocketRequest()
                self._task = asyncio.create_task(self._answer(self._request, messages))

    def _add_chunk(self, messages: list[Message], num_bytes: int) -> None:
        """Keep a part of a conversation. Raises ``ValueError`` and drops all parts if they become too large."""
        self._messages += messages
        self._num_bytes += num_bytes
        try:
            if self._num_bytes > MAX_BYTES:
                raise ValueError(f"a conversation has at most {MAX_BYTES} bytes; got {self._num_bytes}")
            check_conversation(self._messages)
        except ValueError:
            self._drop_chunks()
            raise

    def _drop_chunks(self) -> list[Message]:
        """Return the kept parts, which are kept no longer."""
        messages, self._messages, self._num_bytes = self._messages, [], 0
        return messages

    async def _leave(self) -> None:
        if self._request is not None:
            self._request.leave()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _answer(self, request: _SocketRequest, messages: list[Message]) -> None:
        try:
            loop = asyncio.get_running_loop()
            async with self._encoding:
                thread = self._encoder if has_pictures(messages) else self._reader  # text waits for no pictures
                prompt = await loop.run_in_executor(thread, build_prompt, self._checkpoint, messages)
            prompt = replace(prompt, owner=self._owner)
            sender = _Sender(self._send, request, self._session_id, len(messages))
            kind = "queued"
            async with aclosing(self._service.answer(prompt, request)) as events:
                async for event in events:
                    if isinstance(event, QueuePlace):
                        eta = None if event.eta_s is None else round(event.eta_s, 1)
                        await self._send(kind, position=event.position, eta=eta)
                        kind = "queue_update"
                    elif isinstance(event, Leased):
                        await self._send("queue_done")
                    else:
                        await sender.send(event)
        except WebSocketDisconnect:  # nobody waits for this task
            pass
        except Exception as error:  # also one of the encoder, such as a full device: the client must not wait for ever
            request.is_answered = True
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._send("error", error=as_sentence(error))

    async def _send(self, kind: str, **values: Any) -> None:
        await self._socket.send_json({"type": kind, **values})


class _Sender:
    """Sends the events of one answer as messages."""

    def __init__(self, send: Any, request: _SocketRequest, session_id: str, num_messages: int) -> None:
        self._send, self._request, self._session_id, self._num_messages = send, request, session_id, num_messages
        self._prefilled = Prefilled(prompt_tokens=0, cached_tokens=0, prefilled_tokens=0)
        self._num_chunks, self._sent_at = 0, time.perf_counter()

    async def send(self, event: AnswerEvent) -> None:
        """Send one event."""
        if isinstance(event, Prefilled):
            self._prefilled = event
            await self._send(
                "prefill_done",
                prompt_length=event.prompt_tokens,
                message_count=self._num_messages,
                cached_tokens=event.cached_tokens,
                input_tokens=event.prefilled_tokens,
            )
        elif isinstance(event, AnswerDelta):
            await self._send_chunk(event.text)
            if self._request.sentences is not None:
                await self._speak(self._request.sentences.push(event.text))
        elif isinstance(event, AnswerEnd):
            if self._request.sentences is not None and not self._request.is_stopped:
                await self._speak(self._request.sentences.flush())
            await self._send_chunk("", is_final=True)
            self._request.is_answered = True
            found, num_tokens = self._prefilled, len(event.ids)
            await self._send(
                "done",
                elapsed_ms=_ms_since(self._request.began),
                session_id=replace_surrogates(self._session_id),
                stopped=self._request.is_stopped,
                token_stats={
                    "cached_tokens": found.cached_tokens,
                    "input_tokens": found.prefilled_tokens,
                    "generated_tokens": num_tokens,
                    "total_tokens": found.prompt_tokens + num_tokens,
                },
            )

    async def _speak(self, sentences: list[str]) -> None:
        for sentence in sentences:
            if pcm := await asyncio.to_thread(synthesize, sentence[:MAX_SPOKEN_CHARS]):
                await self._send_chunk("", audio=base64.b64encode(pcm).decode())

    async def _send_chunk(self, text: str, *, audio: str | None = None, is_final: bool = False) -> None:
        duration_ms, self._sent_at = _ms_since(self._sent_at), time.perf_counter()
        await self._send(
            "chunk",
            chunk_index=self._num_chunks,
            text_delta=replace_surrogates(text),
            audio_data=audio,
            audio_sample_rate=None if audio is None else SAMPLE_RATE,
            is_final=is_final,
            duration_ms=duration_ms,
        )
        self._num_chunks += 1


def _ms_since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)

"""Answers for many clients of one event loop: the queue, then a thread of the leased worker. No torch.

A waiting client occupies no thread. When a client disconnects, the generator of its answer is closed: a waiting
question leaves the queue at once, and a worker stops after its current pass.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled
from stepscope.engine.chat.pool import PoolWorker, Ticket, WorkerPool
from stepscope.engine.errors import EngineError

if TYPE_CHECKING:
    from stepscope.engine.chat.worker import ChatPrompt

MAX_IDLE_S: Final = 10.0
"""Time between the prefill and ``AnswerRequest.start`` after which the worker is freed."""
PLACE_INTERVAL_S: Final = 0.5
"""Time between two reports of the place in the queue, unless it changes."""


class AnsweringWorker(PoolWorker, Protocol):
    """A worker of a pool that answers prompts."""

    def answer(
        self, prompt: "ChatPrompt", *, max_new_tokens: int = 128, is_stopped: Callable[[], bool] = lambda: False
    ) -> Generator[AnswerEvent]:
        """Yield the events of one answer."""


T = TypeVar("T")
W = TypeVar("W", bound=AnsweringWorker)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The place of a question that waits for a worker."""

    position: int
    """From 1, which is next."""
    eta_s: float | None
    """Estimated seconds until a worker is leased; None before the first answer of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A worker was leased to the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTiming:
    """The time to the first token of an answer."""

    prompt_tokens: int
    first_s: float
    """From the lease; without the queue and the encoding of frames before it."""


@dataclass(slots=True, kw_only=True)
class AnswerRequest:
    """One question of a client; it can be stopped from any thread."""

    max_new_tokens: int = 0
    """Maximum length of the answer. It may be set until ``start``."""
    num_tokens: int = 0
    is_stopped: bool = False
    is_gone: bool = False
    timing: AnswerTiming | None = None
    """None before the first token."""
    _started: threading.Event = field(default_factory=threading.Event)

    @property
    def is_started(self) -> bool:
        """Whether the answer may follow the prefill."""
        return self._started.is_set()

    def start(self, max_new_tokens: int) -> None:
        """Let the answer follow the prefill, with a maximum length in tokens."""
        self.max_new_tokens = max_new_tokens
        self._started.set()

    def stop(self) -> None:
        """Stop this answer; its text so far is kept."""
        self.is_stopped = True
        self._started.set()

    def leave(self) -> None:
        """Cancel the request after the current pass; none of its tokens is kept."""
        self.is_gone = True
        self._started.set()

    def should_stop(self) -> bool:
        """Return whether generation must stop."""
        is_full = self.is_started and self.num_tokens >= self.max_new_tokens
        return self.is_stopped or is_full

    def wait_for_start(self) -> None:
        """Wait until the request is started, stopped or left. Raises ``ValueError`` after ``MAX_IDLE_S``."""
        if not self._started.wait(MAX_IDLE_S):
            raise ValueError(f"no generate came within {MAX_IDLE_S:.0f} s; send prefill again")


class ChatService(Generic[W]):
    """Answers questions with the workers of a pool."""

    def __init__(self, pool: WorkerPool[W]) -> None:
        self.pool = pool
        self._threads = ThreadPoolExecutor(len(pool.workers), thread_name_prefix="chat")

    async def answer(
        self, prompt: "ChatPrompt", request: AnswerRequest
    ) -> AsyncGenerator[QueuePlace | Leased | AnswerEvent]:
        """Yield the place in the queue while the question waits, then the events of its answer.

        Close the generator when the client leaves.

        Raises:
            QueueFullError: The queue is full.
            EngineError: The prompt does not fit the model, or the model failed.
            ValueError: ``request`` was not started in time.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(changed.set)

        ticket = self.pool.enqueue(prompt.pieces, owner=prompt.owner, on_change=notify)
        is_handed_over = False
        try:
            while (worker := ticket.worker) is None:
                if request.is_stopped:
                    yield AnswerEnd(text="", ids=(), is_stopped=True)
                    return
                yield QueuePlace(position=ticket.position + 1, eta_s=ticket.eta_s)
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), PLACE_INTERVAL_S)
                changed.clear()
            leased_at = time.perf_counter()
            yield Leased()
            events = iterate_in_thread(self._threads, lambda: _answer(ticket, worker, prompt, request))
            is_handed_over = True  # the thread closes the ticket at its end
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Prefilled):  # its last pass gave the first token
                        first_s = time.perf_counter() - leased_at
                        request.timing = AnswerTiming(prompt_tokens=event.prompt_tokens, first_s=first_s)
                    yield event
        finally:
            request.leave()
            if not is_handed_over:
                ticket.close()


def _answer(ticket: Ticket[W], worker: W, prompt: "ChatPrompt", request: AnswerRequest) -> Generator[AnswerEvent]:
    """Answer in the worker's thread, and free the worker."""
    with ticket, closing(worker.answer(prompt, max_new_tokens=2**20, is_stopped=request.should_stop)) as events:
        try:
            for event in events:
                if isinstance(event, AnswerDelta):
                    request.num_tokens = event.num_tokens
                yield event
                if isinstance(event, Prefilled):
                    request.wait_for_start()
                if request.is_gone:
                    return
        except RuntimeError as error:  # of torch, such as a full device
            raise EngineError(f"the model failed: {error}") from error


async def iterate_in_thread(threads: ThreadPoolExecutor, create: Callable[[], Generator[T]]) -> AsyncGenerator[T]:
    """Yield the items of a generator that a thread creates, runs and closes.

    When this generator is closed, the thread closes the other one after its next item, without waiting for it here.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[tuple[T] | Exception | None] = asyncio.Queue()
    is_closed = threading.Event()

    def put(item: tuple[T] | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(items.put_nowait, item)

    def run() -> None:
        try:
            with closing(create()) as source:
                for item in source:
                    put((item,))
                    if is_closed.is_set():
                        return
        except Exception as error:  # raised where the items are read
            put(error)
        else:
            put(None)

    threads.submit(run)
    try:
        while (item := await items.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item[0]
    finally:
        is_closed.set()

"""A pool of workers with one queue, in which the owners of prompts take turns. No torch.

A client enters the queue with a prompt and gets a ticket. The ticket becomes a lease of one worker when all earlier
tickets have theirs and a worker is idle. Closing the ticket frees its worker, or leaves the queue, at every moment.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from threading import RLock
from typing import Any, Generic, Protocol, Self, TypeVar

from stepscope.engine.chat.prefix_store import StoreStats
from stepscope.engine.chat.prompts import ContextPiece, count_tokens
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.engine.turns import take_turns

MAX_QUEUED_QUESTIONS = 100
_NUM_DURATIONS = 20
"""Number of recent answers whose mean duration gives the estimated wait."""
MIN_SHARE = 0.25
"""Minimum share of a prompt in a store that is worth routing to: all prompts share the start of the system prompt."""


class QueueFullError(EngineError):
    """The queue of questions is full."""


class PoolWorker(Protocol):
    """A worker of a pool; ``engine.chat.worker.ChatWorker`` is one."""

    @property
    def name(self) -> str:
        """Name in reports, such as that of its device."""

    @property
    def store(self) -> Any:
        """Its prefix store, of which routing reads ``find`` and ``stats``."""


W = TypeVar("W", bound=PoolWorker)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatWorkerStatus:
    """One worker and its store."""

    name: str
    is_idle: bool
    num_answers: int
    store: StoreStats


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """A pool: its queue and its workers."""

    num_queued: int
    max_queued: int
    mean_answer_s: float
    """Mean duration of the latest leases, in seconds; 0 before the first."""
    workers: tuple[ChatWorkerStatus, ...]


class Ticket(Generic[W]):
    """A place in the queue, then the lease of a worker. Use it as a context manager."""

    def __init__(
        self, pool: "WorkerPool[W]", prompt: tuple[ContextPiece, ...], owner: str, on_change: Callable[[], None]
    ) -> None:
        self._pool, self.prompt, self.owner, self.on_change = pool, prompt, owner, on_change
        self.worker_index: int | None = None
        self.leased_at = 0.0
        self.is_closed = False

    @property
    def worker(self) -> W | None:
        """The leased worker; None while the ticket waits, and after it was closed."""
        index = self.worker_index
        return None if index is None or self.is_closed else self._pool.workers[index]

    @property
    def position(self) -> int:
        """Tickets ahead in the queue; 0 is next."""
        pool = self._pool
        with pool._lock:
            return pool._queue.index(self) if self in pool._queue else 0

    @property
    def eta_s(self) -> float | None:
        """Estimated seconds until a worker is leased, from the duration of recent answers; None before the first."""
        pool = self._pool
        with pool._lock:
            if self not in pool._queue:
                return 0.0
            if not pool._durations:
                return None
            now, mean_s = time.monotonic(), pool._mean_s
            free_at = [0.0 if lease is None else max(lease.leased_at + mean_s - now, 0.0) for lease in pool._leases]
            heapify(free_at)
            for _ in range(pool._queue.index(self)):  # each ticket ahead takes the worker that is free first
                heapreplace(free_at, free_at[0] + mean_s)
            return free_at[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the worker, or leave the queue. A second call does nothing."""
        self._pool._release(self)


class WorkerPool(Generic[W]):
    """Workers, one per device, behind one queue."""

    def __init__(self, workers: Sequence[W], *, max_queued: int = MAX_QUEUED_QUESTIONS) -> None:
        if not workers:
            raise ValueError("a pool has at least one worker")
        self.workers, self.max_queued = tuple(workers), max_queued
        self._leases: list[Ticket[W] | None] = [None] * len(workers)
        self._used_at, self._num_answers = [0] * len(workers), [0] * len(workers)
        self._queue: deque[Ticket[W]] = deque()
        self._durations: deque[float] = deque(maxlen=_NUM_DURATIONS)
        self._lock = RLock()
        self._clock = 0

    def enqueue(
        self, prompt: Sequence[ContextPiece], *, owner: str = "", on_change: Callable[[], None] = lambda: None
    ) -> Ticket[W]:
        """Enter the queue with a prompt of an owner; a worker may be leased at once.

        ``on_change`` is called in any thread when the position or the lease changes; it must not block.

        Raises:
            QueueFullError: ``max_queued`` tickets are waiting.
        """
        ticket = Ticket(self, tuple(prompt), owner, on_change)
        with self._lock:
            if len(self._queue) >= self.max_queued:
                raise QueueFullError(
                    f"{format_count(len(self._queue), 'question is', 'questions are')} waiting already; try again in "
                    "a moment"
                )
            served = [lease.owner for lease in self._leases if lease is not None]
            self._queue = deque(take_turns([*self._queue, ticket], lambda one: one.owner, served=served))
            notified = self._dispatch()
        _notify(notified)
        return ticket

    @property
    def status(self) -> PoolStatus:
        """The current state of queue and workers."""
        with self._lock:
            workers = tuple(
                ChatWorkerStatus(name=worker.name, is_idle=lease is None, num_answers=number, store=worker.store.stats)
                for worker, lease, number in zip(self.workers, self._leases, self._num_answers, strict=True)
            )
            return PoolStatus(
                num_queued=len(self._queue), max_queued=self.max_queued, mean_answer_s=self._mean_s, workers=workers
            )

    @property
    def _mean_s(self) -> float:
        return sum(self._durations) / len(self._durations) if self._durations else 0.0

    def _release(self, ticket: Ticket[W]) -> None:
        with self._lock:
            if ticket.is_closed:
                return
            ticket.is_closed = True
            if ticket in self._queue:
                self._queue.remove(ticket)
            elif ticket.worker_index is not None:
                self._leases[ticket.worker_index] = None
                self._durations.append(time.monotonic() - ticket.leased_at)
            notified = [*self._dispatch(), *self._queue]
        _notify(notified)

    def _dispatch(self) -> list[Ticket[W]]:
        """Lease workers to the first tickets while some are idle; return those tickets."""
        leased = []
        while self._queue and None in self._leases:
            ticket = self._queue[0]
            index = self._route(ticket)
            self._queue.popleft()
            self._clock += 1
            self._leases[index], self._used_at[index] = ticket, self._clock
            self._num_answers[index] += 1
            ticket.worker_index, ticket.leased_at = index, time.monotonic()
            leased.append(ticket)
        return leased

    def _route(self, ticket: Ticket[W]) -> int:
        """Return the index of the worker for a ticket, while one is idle.

        1. The idle worker that holds most of the prompt, if it is at least ``MIN_SHARE``.
        2. An idle worker whose store is empty, so that no kept cache is lost.
        3. The idle worker that was used least recently.
        """
        idle = [index for index, lease in enumerate(self._leases) if lease is None]
        stores = {index: self.workers[index].store for index in idle}
        held = {index: store.find(ticket.prompt, owner=ticket.owner) for index, store in stores.items()}
        best = max(idle, key=lambda index: (held[index], -self._used_at[index]))
        if held[best] >= max(1, MIN_SHARE * count_tokens(ticket.prompt)):
            return best
        empty = [index for index, store in stores.items() if store.stats.num_entries == 0]
        return empty[0] if empty else min(idle, key=lambda index: self._used_at[index])


def _notify(tickets: Sequence[Ticket[W]]) -> None:
    """Call the listeners outside the lock, so that they may call the pool."""
    for ticket in tickets:
        ticket.on_change()

"""The times of answers: in the queue, to the first token, and to the end; with reuse and without. No torch."""

import time
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Final

from stepscope.engine.chat.answering import AnswerEnd, AnswerEvent, Prefilled

MAX_ANSWERS: Final = 200
"""Latest answers that a log keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTiming:
    """One finished answer."""

    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens that were reused."""
    queue_s: float
    """From the request to the lease of a worker."""
    first_s: float
    """From the lease to the first token; without the queue and the encoding of frames before it."""
    rest_s: float
    """From the first token to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """One measured answer."""

    first_s: float
    cached_share: float
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusePoint:
    """One question after a conversation, answered twice; both answers have the same ids."""

    num_turns: int
    prompt_tokens: int
    warm: FirstToken
    """By a worker that answered the turns before."""
    cold: FirstToken
    """By a worker without any cache."""


class AnswerLog:
    """The latest answers of a process, oldest first. Safe in several threads."""

    def __init__(self) -> None:
        self._timings: deque[AnswerTiming] = deque(maxlen=MAX_ANSWERS)
        self._lock = Lock()

    @property
    def timings(self) -> tuple[AnswerTiming, ...]:
        """The kept answers."""
        with self._lock:
            return tuple(self._timings)

    def add(self, timing: AnswerTiming) -> None:
        """Add an answer."""
        with self._lock:
            self._timings.append(timing)


class AnswerTimer:
    """Measures one answer from the creation of the timer; one that ends during the prefill is not logged."""

    def __init__(self, log: AnswerLog) -> None:
        self._log = log
        self._asked_at = self._leased_at = time.perf_counter()
        self._first_at = 0.0
        self._prefilled: Prefilled | None = None

    def lease(self) -> None:
        """Note that a worker was leased."""
        self._leased_at = time.perf_counter()

    def note(self, event: AnswerEvent) -> AnswerTiming | None:
        """Note an event of the answer; return its times at the end, the same that are logged."""
        now = time.perf_counter()
        if isinstance(event, Prefilled):  # its last pass gave the first token; a program may let it wait
            self._prefilled, self._first_at = event, now
        elif isinstance(event, AnswerEnd) and self._prefilled is not None:
            timing = AnswerTiming(
                prompt_tokens=self._prefilled.prompt_tokens,
                cached_tokens=self._prefilled.cached_tokens,
                queue_s=self._leased_at - self._asked_at,
                first_s=self._first_at - self._leased_at,
                rest_s=now - self._first_at,
            )
            self._log.add(timing)
            return timing
        return None

"""The times of answers: in the queue, to the first token, and to the end. No torch."""

import time
from dataclasses import dataclass

from stepscope.engine.chat.answering import AnswerEnd, AnswerEvent, Prefilled


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTiming:
    """One finished answer."""

    prompt_tokens: int
    cached_tokens: int
    queue_s: float
    """From the request to the lease of a worker."""
    first_s: float
    """From the lease to the first token; without the queue and the encoding of frames before it."""
    rest_s: float
    """From the first token to the end."""


class AnswerTimer:
    """Measures one answer from the creation of the timer; one that ends during the prefill has no times."""

    def __init__(self) -> None:
        self._asked_at = self._leased_at = time.perf_counter()
        self._first_at = 0.0
        self._prefilled: Prefilled | None = None

    def lease(self) -> None:
        """Note that a worker was leased."""
        self._leased_at = time.perf_counter()

    def note(self, event: AnswerEvent) -> AnswerTiming | None:
        """Note an event of the answer; return its times at the end."""
        now = time.perf_counter()
        if isinstance(event, Prefilled):  # its last pass gave the first token; a program may let it wait
            self._prefilled, self._first_at = event, now
        elif isinstance(event, AnswerEnd) and self._prefilled is not None:
            return AnswerTiming(
                prompt_tokens=self._prefilled.prompt_tokens,
                cached_tokens=self._prefilled.cached_tokens,
                queue_s=self._leased_at - self._asked_at,
                first_s=self._first_at - self._leased_at,
                rest_s=now - self._first_at,
            )
        return None

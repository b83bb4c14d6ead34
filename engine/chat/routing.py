"""Routing: which worker answers a prompt. One pure function, with four levels."""

from collections.abc import Sequence
from dataclasses import dataclass

MIN_SHARE = 0.25
"""Minimum share of a prompt in a store that is worth routing to: all prompts share the start of the system prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """State of one worker for routing."""

    is_idle: bool
    reusable_tokens: int
    """Number of prompt tokens that its store holds."""
    is_empty: bool
    """Whether its store is empty, so that no kept cache is lost."""
    used_at: int
    """Sequence number of its latest lease; the smallest is the oldest."""


def route(workers: Sequence[WorkerState], *, prompt_tokens: int) -> int | None:
    """Return the index of the worker for a prompt; None to wait in the queue.

    1. The idle worker that holds most of the prompt, if it is at least ``MIN_SHARE``.
    2. An idle worker whose store is empty.
    3. The idle worker that was used least recently.
    4. None: no worker is idle.
    """
    idle = [index for index, worker in enumerate(workers) if worker.is_idle]
    if not idle:
        return None
    best = max(idle, key=lambda index: (workers[index].reusable_tokens, -workers[index].used_at))
    if workers[best].reusable_tokens >= max(1, MIN_SHARE * prompt_tokens):
        return best
    empty = [index for index in idle if workers[index].is_empty]
    return empty[0] if empty else min(idle, key=lambda index: workers[index].used_at)

"""The bounded queue between two stages of a live session, and its drop policy.

The producer never waits. When the queue is full, the oldest frame without a question is dropped: the latest picture
matters most, and a question is never lost. Each dropped frame is reported.
"""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """A frame that may carry questions."""

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions to answer at this frame."""


T = TypeVar("T", bound=Queued)


class FrameQueue(Generic[T]):
    """A first-in, first-out queue of frames.

    Args:
        capacity: Maximum number of frames without a question, at least 1.
        on_drop: Called in the producer's thread for each frame that a full queue drops.
    """

    def __init__(self, capacity: int, *, on_drop: Callable[[T], None] | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a queue must be at least 1; got {capacity}")
        self._capacity, self._on_drop = capacity, on_drop
        self._frames: deque[T] = deque()
        self._changed = Condition()
        self._is_closed = False

    def put(self, frame: T) -> None:
        """Append a frame; drop the oldest frames without a question if there are too many."""
        with self._changed:
            self._frames.append(frame)
            while sum(not queued.questions for queued in self._frames) > self._capacity:
                dropped = next(queued for queued in self._frames if not queued.questions)
                self._frames.remove(dropped)
                if self._on_drop is not None:
                    self._on_drop(dropped)
            self._changed.notify()

    def take(self, max_frames: int, *, may_wait: bool = True) -> Sequence[T]:
        """Remove and return up to ``max_frames`` frames; wait for the first one if ``may_wait``.

        Returns none at the end: when the queue is closed and empty.
        """
        with self._changed:
            while may_wait and not self._frames and not self._is_closed:
                self._changed.wait()
            return [self._frames.popleft() for _ in range(min(max_frames, len(self._frames)))]

    def close(self, *, drop_waiting: bool = False) -> None:
        """Close the queue; waiting frames can still be taken, unless they are dropped."""
        with self._changed:
            self._is_closed = True
            if drop_waiting:
                self._frames.clear()
            self._changed.notify_all()

"""Frames on their way through a live session, the queues that they wait in, and the status of the session."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Condition
from typing import Generic, Literal, TypeVar

import numpy as np

from stepscope.engine.live.sources import Clock
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, GapReason, unknown_output

SessionState = Literal["connecting", "running", "reconnecting", "ended", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledFrame:
    """A frame that was sampled from the source."""

    grid_index: int
    """Index of its instant: ``floor(time_s * fps)``. Instants without a picture leave gaps."""
    captured_s: float
    """When it arrived, on the clock of the session."""
    image: np.ndarray
    """uint8 RGB, resized for the vision tower."""
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedFrame:
    """A frame with its features."""

    sampled: SampledFrame
    features: FrameFeatures
    encode_s: float
    """Its share of the seconds that the encoder took for its batch."""

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions to answer at this frame."""
        return self.sampled.questions


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatus:
    """The status of a live session."""

    state: SessionState
    problem: str
    time_s: float
    """Time of the last decided frame from the first picture, in seconds."""
    num_sampled: int
    num_decided: int
    num_dropped: int
    """Sampled frames that a full queue dropped."""
    num_not_reached: int
    """Sampled frames that the session ended before the model reached them; 0 while it runs."""
    num_without_picture: int
    """Instants without a picture, up to the last sampled frame."""
    lag_s: float
    """Seconds from the arrival of the last decided picture to its decision; nan before the first one."""
    real_time_factor: float
    """Seconds that the slower one of encoder and model takes for a second of video; nan before the first decision."""
    on_time_share: float
    """Share of the decided and dropped frames that were decided in time, in [0, 1]; nan before the first."""

    @property
    def sentence(self) -> str:
        """The state in words; empty while the session runs, and at its end."""
        if self.problem:
            return self.problem
        if self.num_decided == 0:
            start = {"connecting": "Connecting.", "ended": "Ended without a frame."}
            return start.get(self.state, "Waiting for the first decision.")
        return "The connection was lost; connecting again." if self.state == "reconnecting" else ""

    def describe(self) -> str:
        """Return the status as one line."""
        if self.num_decided == 0:
            return self.sentence
        rarely = {"without a picture": self.num_without_picture, "not reached at the end": self.num_not_reached}
        numbers = (
            f"{format_count(self.num_decided, 'frame')} decided, {self.num_dropped} dropped, "
            + "".join(f"{count} {words}, " for words, count in rarely.items() if count)
            + f"lag {self.lag_s:.2f} s, real-time factor {self.real_time_factor:.2f}, on time {self.on_time_share:.0%}."
        )
        return f"{self.sentence} {numbers}".strip()


def make_gap(
    index: int, *, fps: float, before: FrameOutput | None, initial: dict[str, str], reason: GapReason = "dropped"
) -> FrameOutput:
    """Return the output of an instant without a decision: the steps as before, and the reason as ``state``."""
    state, cache_tokens = (before.dst_state, before.cache_tokens) if before else (initial, 0)
    return replace(unknown_output(index, fps=fps, dst_state=dict(state)), cache_tokens=cache_tokens, state=reason)


T = TypeVar("T", bound=SampledFrame | EncodedFrame)


class FrameQueue(Generic[T]):
    """A first-in, first-out queue of frames.

    ``capacity`` is the maximum number of frames without a question, at least 1. ``on_drop`` is called in the producer's
    thread for each frame that a full queue drops.
    """

    def __init__(self, capacity: int, *, on_drop: Callable[[T], None]) -> None:
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


class ModelFrames:
    """The frames that the model takes: numbered without gaps, as ``Streamer`` requires."""

    def __init__(self, queue: FrameQueue[EncodedFrame], clock: Clock) -> None:
        self.in_flight: deque[EncodedFrame] = deque()
        """Frames that were taken and not decided."""
        self._queue, self._clock, self._num_taken = queue, clock, 0
        self._busy_from_s = clock.now()

    def take(self, max_frames: int, *, may_wait: bool) -> Sequence[FrameFeatures]:
        """Return frames as ``LiveFrames`` does."""
        began = self._clock.now()
        taken = self._queue.take(max_frames, may_wait=may_wait)
        self._busy_from_s += self._clock.now() - began  # waiting is not work
        self.in_flight += taken
        first = self._num_taken
        self._num_taken += len(taken)
        return [replace(frame.features, index=index) for index, frame in enumerate(taken, start=first)]

    def take_busy_s(self, now: float) -> float:
        """Return the seconds of work, without waiting, since the last call."""
        busy_s, self._busy_from_s = now - self._busy_from_s, now
        return busy_s

    def __iter__(self) -> Iterator[FrameFeatures]:
        """Return the iterator itself; it can be consumed once."""
        return self

    def __next__(self) -> FrameFeatures:
        """Wait for the next frame."""
        for frame in self.take(1, may_wait=True):
            return frame
        raise StopIteration

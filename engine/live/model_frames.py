"""The frames that the model of a live session takes from its queue."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stepscope.engine.live.clock import Clock
from stepscope.engine.live.frame_queue import FrameQueue
from stepscope.engine.live.frames import EncodedFrame
from stepscope.engine.model.features.frame_encoder import FrameFeatures


class ModelFrames:
    """The frames that the model takes: numbered without gaps, as ``Streamer`` requires."""

    def __init__(self, queue: FrameQueue[EncodedFrame], clock: Clock) -> None:
        self.in_flight: deque[EncodedFrame] = deque()
        """Frames that were taken and not decided."""
        self.taken_s = 0.0
        """When the model last took frames."""
        self._queue, self._clock, self._num_taken = queue, clock, 0
        self._busy_from_s = clock.now()

    def take(self, max_frames: int, *, may_wait: bool) -> Sequence[FrameFeatures]:
        """Return frames as ``LiveFrames`` does."""
        began = self._clock.now()
        taken = self._queue.take(max_frames, may_wait=may_wait)
        self.taken_s = self._clock.now()
        self._busy_from_s += self.taken_s - began  # waiting is not work
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

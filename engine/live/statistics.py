"""Counts of a live session: what became of each instant, lag and real-time factor.

Every instant up to the last sampled frame is one of: decided, dropped, without a picture, or waiting. Frames that wait
at the end of the session are those that it did not reach.
"""

import math
from collections import deque
from threading import Lock
from typing import Final

from stepscope.engine.live.frames import LiveStatus, SessionState
from stepscope.engine.records import GapReason

RECENT_FRAMES: Final = 64
"""Frames over which the real-time factor is averaged."""


class LiveStatistics:
    """Counts of a session. Any thread may read them.

    ``on_time_s`` is the maximum lag of a frame that is decided in time, in seconds.
    """

    def __init__(self, *, fps: float, on_time_s: float) -> None:
        self.num_sampled = self.num_decided = self.num_dropped = self._num_on_time = 0
        self.last_index, self.lag_s = -1, math.nan
        self._waiting, self._dropped = set[int](), set[int]()  # instants without an output yet
        self._is_closed = False
        self._fps, self._on_time_s = fps, on_time_s
        self._encode_s: deque[float] = deque(maxlen=RECENT_FRAMES)
        self._model_s: deque[float] = deque(maxlen=RECENT_FRAMES)
        self._lock = Lock()

    def add_sampled(self, index: int) -> bool:
        """Count the frame of an instant; False if the session has ended, and the frame does not count."""
        with self._lock:
            if not self._is_closed:
                self.num_sampled, self.last_index = self.num_sampled + 1, index
                self._waiting.add(index)
            return not self._is_closed

    def add_dropped(self, index: int) -> None:
        """Count a frame that a full queue has dropped."""
        with self._lock:
            self.num_dropped += 1
            self._waiting.discard(index)
            self._dropped.add(index)

    def add(self, index: int, *, lag_s: float, encode_s: float, model_s: float) -> None:
        """Count a decided frame, with its lag and the seconds that encoder and model worked for it."""
        with self._lock:
            self._waiting.discard(index)
            self.num_decided += 1
            self.lag_s = lag_s
            self._num_on_time += lag_s <= self._on_time_s
            self._encode_s.append(encode_s)
            self._model_s.append(model_s)

    def take_reason(self, index: int) -> GapReason:
        """Return why an instant has no decision; it is requested once, in the order of the instants."""
        with self._lock:
            if index in self._dropped:
                self._dropped.remove(index)
                return "dropped"
            return "not reached" if index in self._waiting else "no picture"

    def close(self) -> None:
        """End the session: frames that wait are not reached any more, and later ones do not count."""
        with self._lock:
            self._is_closed = True

    def describe(self, state: SessionState, *, problem: str, time_s: float) -> LiveStatus:
        """Return the status of the session in a state, after the frame at a time."""
        with self._lock:
            num_timed, num_recent = self.num_decided + self.num_dropped, len(self._model_s)
            busy_s = max(sum(self._encode_s), sum(self._model_s))
            return LiveStatus(
                state=state,
                problem=problem,
                time_s=time_s,
                num_sampled=self.num_sampled,
                num_decided=self.num_decided,
                num_dropped=self.num_dropped,
                num_not_reached=len(self._waiting) if self._is_closed else 0,
                num_without_picture=self.last_index + 1 - self.num_sampled,
                lag_s=self.lag_s,
                real_time_factor=busy_s / num_recent * self._fps if num_recent else math.nan,
                on_time_share=self._num_on_time / num_timed if num_timed else math.nan,
            )

"""The capture thread of a live session: it reads the source, samples pictures, and connects again when it is lost."""

import math
from collections.abc import Callable
from threading import Event
from typing import Final

import numpy as np

from stepscope.engine.errors import EngineError, VideoError
from stepscope.engine.live.frames import FrameQueue, SampledFrame
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.live.sources import Clock, LiveSource
from stepscope.engine.video.stills import make_square

_EARLY: Final = 0.25
"""Tolerance for early pictures, as a fraction of a frame interval, since sources and clocks jitter."""
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 8.0

OnPicture = Callable[[int, np.ndarray], None]
"""Callback for each sampled frame, with the index of its instant and the picture in full size, of square pixels."""
MaySample = Callable[[int], bool]
"""Counts the frame of an instant; False if the session has ended."""


class Capture:
    """Samples a source at a constant rate.

    The first picture that arrives in the interval of instant ``i`` becomes frame ``i``. ``resize`` prepares an image
    for the vision tower before it waits in the queue. ``stall_s`` is the maximum time without a picture. ``may_sample``
    counts each sampled frame before it enters the queue; ``on_picture`` is called for it in the capture thread.
    """

    def __init__(
        self,
        source: LiveSource,
        queue: FrameQueue[SampledFrame],
        *,
        fps: float,
        resize: Callable[[np.ndarray], np.ndarray],
        clock: Clock,
        stall_s: float,
        asked: AskedQuestions,
        may_sample: MaySample,
        on_picture: OnPicture | None = None,
    ) -> None:
        self.num_sampled, self._last_index = 0, -1
        self.is_reconnecting = False
        self.latest: np.ndarray | None = None
        """The latest sampled picture, uint8 [H, W, 3] RGB with square pixels."""
        self._source, self._queue, self._on_picture = source, queue, on_picture
        self._fps, self._resize, self._clock, self._stall_s = fps, resize, clock, stall_s
        self._began_s: float | None = None
        self._picture_s = clock.now()
        self._asked, self._may_sample = asked, may_sample

    def run(self, stopped: Event) -> None:
        """Read the source until it ends or ``stopped`` is set. Raises ``VideoError`` if it is lost for good."""
        retry_s = _FIRST_RETRY_S
        while not stopped.is_set():
            num_before = self.num_sampled
            problem = self._read(stopped)
            if stopped.is_set() or (problem is None and not self._source.is_endless and self.num_sampled):
                return
            retry_s = _FIRST_RETRY_S if self.num_sampled > num_before else min(2 * retry_s, _LAST_RETRY_S)
            if self.num_sampled == 0 or not self._source.is_endless or self.is_stalled:
                raise problem or VideoError(f"{self._source.name}: has no pictures; check the source")
            self.is_reconnecting = True
            self._clock.wait(stopped, retry_s)

    @property
    def is_stalled(self) -> bool:
        """Whether no picture has arrived for ``stall_s`` seconds."""
        return self._clock.now() - self._picture_s > self._stall_s

    def _read(self, stopped: Event) -> EngineError | None:
        """Read the source once; return the error that ended it. Errors of ``on_picture`` are not the source's."""
        pictures = self._source.pictures(self._clock, stopped)
        while not stopped.is_set():
            try:
                image = next(pictures, None)
            except VideoError as error:
                return error
            if image is None:
                return None
            self._sample(image)
        return None

    def _sample(self, image: np.ndarray) -> None:
        """Put a picture into the queue, if it is the first of its instant."""
        now = self._clock.now()
        self._began_s = now if self._began_s is None else self._began_s
        self._picture_s, self.is_reconnecting = now, False
        index = math.floor((now - self._began_s) * self._fps + _EARLY)
        if index <= self._last_index or not self._may_sample(index):
            return
        questions = self._asked.take(index)
        shown = make_square(image, self._source.pixel_aspect)
        self.num_sampled, self._last_index, self.latest = self.num_sampled + 1, index, shown
        if self._on_picture is not None:
            self._on_picture(index, shown)
        self._queue.put(SampledFrame(grid_index=index, captured_s=now, image=self._resize(image), questions=questions))

"""Live sources: a file in real time, a network stream, and pictures that a browser pushes; and the clock of sessions.

A source yields pictures when they arrive. ``engine.live.session`` samples them, and connects again when an endless
source ends or fails.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Condition, Event
from typing import Protocol

import numpy as np

from stepscope.engine.errors import VideoError
from stepscope.engine.video.network import check_url, mask_password, open_url
from stepscope.engine.video.reader import probe, read_frames
from stepscope.engine.video.track import find_track

_POLL_S = 0.5


class Clock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the time in seconds, from an arbitrary start."""
        return time.monotonic()

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Wait until the event is set, at most ``timeout_s`` seconds; return whether it is set."""
        return event.wait(timeout_s)


class LiveSource(Protocol):
    """A source of pictures."""

    name: str
    """Name to display, without passwords."""
    is_endless: bool
    """Whether an end of the pictures is a lost connection; known once they have begun."""
    pixel_aspect: float
    """Width of a pixel divided by its height, of the latest picture; the model gets the stored pixels."""

    def pictures(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        """Connect and yield pictures, uint8 [H, W, 3] RGB, as they arrive, until ``stopped`` is set.

        Raises ``VideoError`` if the source cannot be opened or the connection is lost.
        """


class FileSource:
    """A video file, played at its own speed."""

    is_endless = False

    def __init__(self, path: Path, *, fps: float) -> None:
        """Check the file. Raises ``VideoError`` if it is not a video."""
        probe(path)
        self.name = path.name
        self.pixel_aspect = find_track(path).pixel_aspect
        self.path, self._fps = path, fps

    def pictures(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        """Yield the frames at the sampling rate, each at its time."""
        began = clock.now()
        damages: list[str] = []
        for frame in read_frames(self.path, fps=self._fps, on_damage=damages.append):
            if clock.wait(stopped, began + frame.index / self._fps - clock.now()):
                return
            yield frame.image
        if damages:
            raise VideoError(damages[0])


class UrlSource:
    """A network stream: RTSP, or video over HTTP."""

    is_endless = True

    def __init__(self, url: str) -> None:
        """Check the URL. Raises ``ValueError``."""
        self._url = check_url(url)
        self.name, self.pixel_aspect = mask_password(self._url), 1.0

    def pictures(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        """Connect, and yield the pictures; those of a recorded video at its own speed."""
        stream = open_url(self._url)
        self.is_endless = not stream.is_recorded
        began = clock.now()
        for picture in stream.pictures:
            ahead_s = 0.0 if self.is_endless else began + picture.time_s - clock.now()
            if stopped.is_set() or (ahead_s > 0 and clock.wait(stopped, ahead_s)):
                return
            self.pixel_aspect = picture.pixel_aspect
            yield picture.image


class PushedSource:
    """Pictures that another thread pushes, such as those of a browser's webcam; only the latest one is kept."""

    is_endless = True
    name = "webcam"
    pixel_aspect = 1.0

    def __init__(self) -> None:
        self._latest: np.ndarray | None = None
        self._problem = ""
        self._changed = Condition()

    def push(self, image: np.ndarray) -> None:
        """Add a picture, uint8 [H, W, 3] RGB."""
        with self._changed:
            self._latest = image
            self._changed.notify()

    def fail(self, problem: str) -> None:
        """End the pictures for a reason, such as a camera that the browser refuses."""
        with self._changed:
            self._problem, self.is_endless = problem, False
            self._changed.notify()

    def pictures(self, clock: Clock, stopped: Event) -> Iterator[np.ndarray]:
        """Yield the pictures as they are pushed. Raises ``VideoError`` after ``fail``."""
        del clock
        while not stopped.is_set():
            with self._changed:
                if self._latest is None and not self._problem:
                    self._changed.wait(_POLL_S)
                if self._problem:
                    raise VideoError(f"{self.name}: {self._problem}")
                image, self._latest = self._latest, None
            if image is not None:
                yield image

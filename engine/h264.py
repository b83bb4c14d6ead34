"""Writes video: images become an H.264 mp4 that every browser plays, and any readable video is converted to one.

H.264 high profile, yuv420p, BT.601 colours and tagged so, index at the front, a key picture at least every 2 s
so that a browser seeks precisely. Files appear whole or not at all. There is no audio: ``convert_for_browser``
drops it. libx264 comes with PyAV; no ffmpeg program is needed.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.container import OutputContainer
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from engine.decoders import find_track
from engine.errors import VideoError
from engine.records import write_whole
from engine.video import show

CLOCK = 90_000
"""Ticks per second of the times written; a whole number of them for 24, 25, 29.97, 30, 50 and 60 fps."""
KEY_EVERY_S = 2.0
"""Longest time between two key pictures, in seconds."""
MAX_WIDTH = 1280
"""Width to which ``convert_for_browser`` reduces, in pixels."""


def write_h264(path: str | Path, images: Iterable[np.ndarray], *, fps: float | Fraction, crf: int = 23) -> int:
    """Write images, uint8 [H, W, 3] RGB of one even size, as a video at ``fps``. Returns their number.

    ``crf`` is x264's quality, 0 (lossless) to 51. Raises ``ValueError`` for no images, wrong or differing
    shapes, odd sizes, a wrong rate or quality; ``VideoError`` when the encoder or the disk fails.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be positive and finite, not {fps}")
    if not 0 <= crf <= 51:
        raise ValueError(f"crf must be between 0 and 51, not {crf}")
    rate = Fraction(fps).limit_denominator(1001)
    count = 0
    images = iter(images)
    first = next(images, None)
    if first is None:
        raise ValueError("there are no images to write; a video needs at least one")
    with _encoder(Path(path), _shape(first), rate=rate, crf=crf, preset="medium") as encoder:
        while first is not None:
            encoder.add(first, time_s=count / rate, until_s=(count + 1) / rate)
            count += 1
            first = next(images, None)
    return count

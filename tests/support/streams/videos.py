"""Grey images, and videos of any size, written with PyAV."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream


def grey(level: int, *, height: int = 64, width: int = 96) -> np.ndarray:
    """An image whose mean tells which one it is."""
    return np.full((height, width, 3), level, dtype=np.uint8)


def level_of(image: np.ndarray) -> float:
    """The level of a grey image, away from its corners, whichever way it is turned."""
    return float(image[20:28, 20:28].mean())


def write_at(
    path: Path,
    times_s: list[float],
    *,
    codec: str = "libx264",
    height: int = 64,
    width: int = 96,
    pixel_aspect: float = 1,
) -> Path:
    """Write one picture, of level 20 times its number, at each of the times."""
    clock = Fraction(1, 1000)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.time_base = clock
        stream.codec_context.sample_aspect_ratio = Fraction(pixel_aspect).limit_denominator(9)
        for number, time_s in enumerate(times_s):
            frame = VideoFrame.from_ndarray(grey(number * 20 % 240, height=height, width=width), format="rgb24")
            frame.pts, frame.time_base = round(time_s / clock), clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_plain(path: Path, *, width: int, height: int, num_pictures: int, fps: int = 2) -> Path:
    """Write a small H.264 video of grey frames of increasing brightness."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "crf": "40"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(num_pictures):
            frame = VideoFrame.from_ndarray(np.full((height * 3 // 2, width), 2 * index, np.uint8), format="yuv420p")
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path

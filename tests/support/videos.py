"""Videos of any size, written with PyAV."""

from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream


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

"""Pictures of AVI files, whose container stores no times, have those of their chunks."""

from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.engine.records import Excerpt
from stepscope.engine.video.reader import probe, read_frames


@pytest.mark.parametrize(("codec", "num_b"), [("libx264", 0), ("mpeg4", 2)])
def test_pictures_of_avi_have_the_times_of_their_chunks(tmp_path: Path, codec: str, num_b: int) -> None:
    path, generator = tmp_path / "a.avi", np.random.default_rng(0)
    numbers = [number for number in range(50) if num_b or not 20 <= number < 32]  # dropped ones are empty chunks
    texture = generator.integers(0, 60, (64, 196, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options={"b-adapt": "0"} if codec == "libx264" else {})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.codec_context.max_b_frames, stream.bit_rate = num_b, 4_000_000
        for number in numbers:
            image = texture[:, 2 * number : 2 * number + 96].copy()
            image[16:48, 16:48] = 5 * number
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    frames = list(read_frames(path, fps=25, on_damage=pytest.fail))
    shown = [max(number for number in numbers if number <= index) for index in range(50)]
    assert [round(frame.image[28:36, 28:36].mean() / 5) for frame in frames] == shown
    assert [frame.time_s for frame in frames] == pytest.approx([number / 25 for number in shown])
    assert probe(path).duration_s == pytest.approx(2.0)
    late = list(read_frames(path, fps=25, excerpt=Excerpt(start_s=1.6, num_frames=5)))
    assert [round(frame.image[28:36, 28:36].mean() / 5) for frame in late] == [40, 41, 42, 43, 44]

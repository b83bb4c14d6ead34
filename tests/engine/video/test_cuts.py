"""Files that are cut off are named where their container states that more was there; unfinished ones are whole."""

import io
from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.engine.video.reader import find_cut, read_frames

NUM_PICTURES, RATE = 50, 25


def encode(container: str, codec: str) -> bytes:
    """Encode noise, which takes equal bytes for each picture."""
    random, file = np.random.default_rng(0), io.BytesIO()
    file.name = f"noise.{container}"
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=RATE)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.codec_context.gop_size = 5
        for _ in range(NUM_PICTURES):
            image = random.integers(0, 256, (64, 96, 3), dtype=np.uint8)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        output.mux(stream.encode())
    return file.getvalue()


@pytest.mark.parametrize(
    ("container", "codec", "reason"),
    [
        ("avi", "mpeg4", "its header declares 2.00 s"),
        ("flv", "flv1", "the file is cut off"),
        ("mxf", "mpeg2video", "the file is cut off"),
    ],
)
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, container: str, codec: str, reason: str) -> None:
    path = tmp_path / f"noise.{container}"
    content = encode(container, codec)
    path.write_bytes(content)
    assert len(list(read_frames(path, fps=5, on_damage=pytest.fail))) == 10
    assert find_cut(path) is None

    damage: list[str] = []
    path.write_bytes(content[: len(content) * 3 // 5])
    assert len(list(read_frames(path, fps=5, on_damage=damage.append))) in (5, 6, 7, 8)
    (message,) = damage
    assert reason in message
    assert find_cut(path) == pytest.approx(1.2, abs=0.3)


def test_a_recording_that_was_never_finished_is_whole(tmp_path: Path) -> None:
    path, content = tmp_path / "noise.flv", encode("flv", "flv1")
    path.write_bytes(content[: len(content) // 2].replace(b"filesize", b"FILESIZE"))
    assert find_cut(path) is None
    assert list(read_frames(path, fps=5, on_damage=pytest.fail))

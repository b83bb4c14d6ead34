"""Files that are cut off are named where their container states that more was there; unfinished ones are whole."""

import io
from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.engine.video.cuts import has_further_flv
from stepscope.engine.video.reader import find_cut, read_frames

NUM_PICTURES, RATE = 50, 25


def encode(container: str, codec: str, *, pixel_format: str = "yuv420p") -> bytes:
    """Encode noise, which takes equal bytes for each picture."""
    random, file = np.random.default_rng(0), io.BytesIO()
    file.name = f"noise.{container}"
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=RATE)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 96, 64, pixel_format
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
        ("asf", "wmv2", "the file is cut off"),
        ("mxf", "mpeg2video", "the file is cut off"),
        ("gif", "gif", "the file is cut off"),
        ("ogg", "libvpx", "the file is cut off"),
    ],
)
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, container: str, codec: str, reason: str) -> None:
    path = tmp_path / f"noise.{container}"
    content = encode(container, codec, pixel_format="rgb8" if codec == "gif" else "yuv420p")
    path.write_bytes(content)
    assert len(list(read_frames(path, fps=5, on_damage=pytest.fail))) == 10
    assert find_cut(path) is None

    damage: list[str] = []
    path.write_bytes(content[: len(content) * 3 // 5])
    assert len(list(read_frames(path, fps=5, on_damage=damage.append))) in (5, 6, 7, 8)
    (message,) = damage
    assert reason in message
    assert find_cut(path) == pytest.approx(1.2, abs=0.3)


@pytest.mark.parametrize(
    ("container", "codec", "finished"),
    [
        ("flv", "flv1", (b"filesize", b"FILESIZE")),
        ("mxf", "mpeg2video", (44, 52)),
        ("ogg", "libvpx", None),
    ],
)
def test_a_recording_that_was_never_finished_is_whole(
    tmp_path: Path, container: str, codec: str, finished: tuple[bytes, bytes] | tuple[int, int] | None
) -> None:
    path, content = tmp_path / f"noise.{container}", encode(container, codec)
    match finished:
        case (bytes(name), bytes(other)):
            content = content[: len(content) // 2].replace(name, other)
        case (int(start), int(end)):  # the place of a size that a recorder writes at its end
            content = content[:start] + bytes(end - start) + content[end : len(content) // 2]
        case _:
            content = content[: content.rindex(b"OggS")]
    path.write_bytes(content)
    assert find_cut(path) is None
    assert list(read_frames(path, fps=5, on_damage=pytest.fail))


@pytest.mark.parametrize("block_bytes", range(1, 30))
def test_an_appended_flv_file_is_found_between_blocks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr("stepscope.engine.video.cuts._NUM_BLOCK_BYTES", block_bytes)
    header, path = b"FLV\x01\x05\0\0\0\x09\0\0\0\0", tmp_path / "a.flv"
    for content, is_expected in [
        (header, False),
        (header + b"FLV\x01" * 9, False),
        (header + bytes(40) + header, True),
    ]:
        path.write_bytes(content)
        assert has_further_flv(path) == is_expected

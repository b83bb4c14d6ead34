"""Parts of a video file, read as videos of their own: the frames are the right ones, whichever decoder reads them."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.records import Excerpt
from stepscope.engine.video.decoders import (
    Picture,
    decode_with_decord,
    decode_with_opencv,
    decode_with_pyav,
)
from stepscope.engine.video.reader import Decoders, Frame, read_frames, sample_track
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.track import Track, find_track

NUM_PICTURES, FPS = 600, 10
DECODERS = {
    "selective": decode_sampled,
    "pyav": decode_with_pyav,
    "decord": decode_with_decord,
    "opencv": decode_with_opencv,
}


def image_of(number: int) -> np.ndarray:
    """Return a picture that holds its number, 0 to 1023: ten bars, white for 1 and black for 0."""
    bits = [number >> bit & 1 for bit in range(10)]
    return np.repeat(np.array(bits, np.uint8) * 255, 16)[None, :, None].repeat(32, 0).repeat(3, 2)


def number_of(image: np.ndarray) -> int:
    """Return the number that a picture holds."""
    return sum(int(image[16, 16 * bit + 8].mean() > 127) << bit for bit in range(10))


def write_numbered(path: Path, *, first_pts: int = 0) -> Path:
    """Write 60 s of numbered pictures at 10 a second, with B-frames and a key picture every 5 s."""
    options = {"g": "50", "crf": "20", "preset": "ultrafast", "bf": "2"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=options)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 160, 32, "yuv420p"
        stream.codec_context.time_base = Fraction(1, FPS)
        for number in range(NUM_PICTURES):
            frame = VideoFrame.from_ndarray(image_of(number), format="rgb24")
            frame.pts, frame.time_base = number + first_pts, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_numbered(tmp_path_factory.mktemp("numbered") / "a.mp4")


def numbers(frames: Iterator[Frame] | list[Frame]) -> list[int]:
    return [number_of(frame.image) for frame in frames]


def read(path: Path, decoders: Decoders, *, start_s: float, num_frames: int, fps: float = 2) -> list[Frame]:
    excerpt = Excerpt(start_s=start_s, num_frames=num_frames)
    return list(sample_track(find_track(path), fps=fps, size=None, excerpt=excerpt, decoders=decoders))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("start_s", [0.0, 12.5])
def test_frames_of_an_excerpt_are_those_of_the_file_from_its_start(numbered: Path, name: str, start_s: float) -> None:
    frames = read(numbered, (DECODERS[name],), start_s=start_s, num_frames=8)
    # at 2 frames and 10 pictures a second every fifth picture, from picture 10 * start_s
    assert numbers(frames) == [round(10 * start_s) + 5 * index for index in range(8)]
    assert [frame.index for frame in frames] == list(range(8))
    assert [frame.time_s for frame in frames] == pytest.approx([index / 2 for index in range(8)], abs=1e-3)


@pytest.mark.parametrize("suffix", [".mkv", ".ts", ".avi"])
def test_an_excerpt_is_the_part_that_reading_all_gives_in_every_container(tmp_path: Path, suffix: str) -> None:
    path = write_numbered(tmp_path / f"a{suffix}")
    whole = numbers(read_frames(path, fps=2))
    assert numbers(read_frames(path, fps=2, excerpt=Excerpt(start_s=33.5, num_frames=20))) == whole[67:87]


def test_an_excerpt_of_a_file_whose_first_picture_is_late_counts_as_the_file_does(tmp_path: Path) -> None:
    path = write_numbered(tmp_path / "late.mp4", first_pts=30)
    whole = numbers(read_frames(path, fps=2))
    assert numbers(read(path, (decode_with_pyav,), start_s=20.0, num_frames=6)) == whole[40:46]


def test_a_picture_from_before_the_start_has_time_0(numbered: Path) -> None:
    # 12.54 s lies inside picture 125, on display from 12.5 s; the next instant, 13.04 s, shows picture 130, from 13 s
    first, second = read_frames(numbered, fps=2, excerpt=Excerpt(start_s=12.54, num_frames=2))
    assert (number_of(first.image), first.time_s) == (125, 0.0)
    assert number_of(second.image) == 130
    assert second.time_s == pytest.approx(0.46, abs=1e-3)


def test_what_lies_outside_an_excerpt_is_not_decoded_to_its_end(numbered: Path) -> None:
    seen: list[float] = []

    def watched(track: Track) -> Iterator[Picture]:
        for picture in decode_with_pyav(track):
            seen.append(picture.time_s)
            yield picture

    assert numbers(read(numbered, (watched,), start_s=42.0, num_frames=4)) == [420, 425, 430, 435]
    assert min(seen) >= 40.0  # the key picture before the seek's aim, 41 s, is picture 400
    assert max(seen) < 44.0


def test_an_excerpt_beyond_the_end_gives_the_frames_there_are_or_one_sentence(numbered: Path) -> None:
    assert numbers(read_frames(numbered, fps=2, excerpt=Excerpt(start_s=59.0, num_frames=9))) == [590, 595]
    for start_s in (60.0, 900.0):
        with pytest.raises(VideoError, match=rf"a\.mp4: ends at 60\.00 s, before the clip starts at {start_s:g} s"):
            list(read_frames(numbered, fps=2, excerpt=Excerpt(start_s=start_s, num_frames=2)))


@pytest.mark.parametrize(("start_s", "num_frames"), [(-0.5, 1), (float("nan"), 1), (0.0, 0)])
def test_an_excerpt_out_of_range_is_refused(start_s: float, num_frames: int) -> None:
    with pytest.raises(ValueError, match="an excerpt must"):
        Excerpt(start_s=start_s, num_frames=num_frames)

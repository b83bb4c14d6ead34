import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.errors import VideoError
from stepscope.engine.video.decoders import (
    Picture,
    decode_with_decord,
    decode_with_opencv,
    decode_with_pyav,
)
from stepscope.engine.video.packets import DecodeError
from stepscope.engine.video.reader import VideoWarning, read_frames, sample_track
from stepscope.engine.video.track import Track, find_track
from tests.support.streams.videos import level_of

needs_decord = pytest.mark.skipif(find_spec("decord") is None, reason="no decord here")
DECODERS = [decode_with_pyav, pytest.param(decode_with_decord, marks=needs_decord), decode_with_opencv]
Decode = Callable[[Track], Iterator[Picture]]


def packets_of(path: Path) -> list[tuple[int, int, float]]:
    """Position, size and time of each packet, in decoding order."""
    with av.open(str(path)) as container:
        packets = container.demux(container.streams.video[0])
        return [(p.pos or 0, p.size, float(p.pts * p.time_base)) for p in packets if p.pts is not None and p.time_base]


@pytest.mark.parametrize("decode", DECODERS)
def test_every_decoder_gives_the_same_pictures_at_the_same_times(ntsc: Path, decode: Decode) -> None:
    track = find_track(ntsc)
    pictures = [(picture.time_s, level_of(picture.fetch())) for picture in islice(decode(track), 60)]
    assert [time_s for time_s, _ in pictures] == pytest.approx([n * 1001 / 30000 for n in range(60)], abs=1e-4)
    assert [level for _, level in pictures] == pytest.approx([n * 2 // 3 for n in range(60)], abs=2.5)


def test_a_hole_is_bridged_by_the_last_clean_picture_and_warned_of(ntsc: Path, tmp_path: Path) -> None:
    content = bytearray(ntsc.read_bytes())
    hole = packets_of(ntsc)[100:103]
    for position, size, _ in hole:
        content[position : position + size] = b"\xff" * size
    path = tmp_path / "hole.mp4"
    path.write_bytes(content)
    with pytest.warns(VideoWarning, match=r"hole\.mp4: damaged") as caught:
        frames = list(read_frames(path, fps=10))
    assert len(caught) == 1
    assert [frame.index for frame in frames] == list(range(101))  # none lost, none twice: 0 .. 10.0 s
    late = [frame.index / 10 for frame in frames if frame.index / 10 - frame.time_s > 0.04]
    assert late
    assert min(late) == pytest.approx(hole[0][2], abs=0.3)


def fake_track() -> Track:
    return Track(
        path=Path("fake.mp4"),
        container="fake",
        stream_index=0,
        start_s=0,
        zero_s=0,
        duration_s=3,
        fps=4,
        width=1,
        height=1,
        codec="h264",
        pixel_format="yuv420p",
    )


def fake_decoder(*, dies_at: float = math.inf, is_lazy: bool = False) -> Decode:
    """Pictures of level 0, 1, 2 .. at 4 a second; it dies while decoding, or lazily when asked for the image."""

    def fetch(number: int) -> np.ndarray:
        if number >= dies_at:
            raise DecodeError("dead")
        return np.full((1, 1, 3), number % 256, dtype=np.uint8)

    def decode(_: Track) -> Iterator[Picture]:
        for n in range(12):
            if n >= dies_at and not is_lazy:
                raise DecodeError("dead")
            yield Picture(time_s=n / 4, end_s=(n + 1) / 4, is_decoded=not is_lazy, fetch=partial(fetch, n))

    return decode


@given(first=st.integers(0, 12), second=st.integers(0, 12), is_lazy=st.booleans(), fps=st.sampled_from([1, 3, 8]))
def test_the_next_decoder_carries_on_where_one_failed(first: int, second: int, is_lazy: bool, fps: int) -> None:
    decoders = (
        fake_decoder(dies_at=first, is_lazy=is_lazy),
        fake_decoder(dies_at=second, is_lazy=is_lazy),
        fake_decoder(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VideoWarning)
        frames = list(sample_track(fake_track(), fps=fps, size=None, decoders=decoders))
    assert [frame.index for frame in frames] == list(range(3 * fps))
    assert [int(frame.image[0, 0, 0]) for frame in frames] == [index * 4 // fps for index in range(3 * fps)]


@given(first=st.integers(0, 11), second=st.integers(0, 11), is_lazy=st.booleans())
def test_when_all_fail_the_furthest_counts_and_one_warning_tells(first: int, second: int, is_lazy: bool) -> None:
    decoders = (fake_decoder(dies_at=first, is_lazy=is_lazy), fake_decoder(dies_at=second))
    frames = sample_track(fake_track(), fps=4, size=None, decoders=decoders)
    if first == second == 0:
        with pytest.raises(VideoError, match=r"fake\.mp4: no picture can be decoded \(dead\)"):
            list(frames)
        return
    with pytest.warns(VideoWarning, match=f"up to {max(first, second) / 4:.2f} s") as caught:
        assert [frame.index for frame in frames] == list(range(max(first, second)))
    assert len(caught) == 1

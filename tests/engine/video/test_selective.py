"""Frames of the decoder that skips, and of decord, are those of decoding every picture with PyAV, in every codec."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.records import Excerpt
from stepscope.engine.video import selective
from stepscope.engine.video.decoders import Picture, decode_with_decord, decode_with_pyav
from stepscope.engine.video.packets import DecodeError
from stepscope.engine.video.reader import Frame, sample_track
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.track import Track, find_track

HEIGHT, WIDTH, FPS, SECONDS = 64, 96, 24, 6
Decode = Callable[[Track], Iterator[Picture]]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    encoder: str
    suffix: str
    options: dict[str, str] = field(default_factory=dict)


ENCODINGS = {
    "h264": Encoding(encoder="libx264", suffix=".mp4", options={"g": "48", "bf": "3", "preset": "veryfast"}),
    "h264 in ts": Encoding(encoder="libx264", suffix=".ts", options={"g": "48", "bf": "3", "preset": "veryfast"}),
    "h264 open": Encoding(
        encoder="libx264", suffix=".mkv", options={"g": "30", "bf": "3", "x264-params": "open-gop=1:scenecut=0"}
    ),
    "hevc open": Encoding(
        encoder="libx265",
        suffix=".mp4",
        options={"preset": "ultrafast", "x265-params": "keyint=30:bframes=3:open-gop=1:log-level=none:pools=1"},
    ),
    "mpeg4": Encoding(encoder="mpeg4", suffix=".mp4", options={"g": "30", "bf": "2"}),
    "vp8": Encoding(encoder="libvpx", suffix=".webm", options={"g": "30", "deadline": "realtime", "cpu-used": "8"}),
    "vp9": Encoding(encoder="libvpx-vp9", suffix=".webm", options={"g": "30", "deadline": "realtime", "cpu-used": "8"}),
    "av1": Encoding(encoder="libsvtav1", suffix=".mp4", options={"g": "30", "preset": "13"}),
    "mjpeg": Encoding(encoder="mjpeg", suffix=".mov"),
}
NOT_ENTERED = {"h264 open"}
"""An excerpt of these begins at a key picture that later pictures refer back over."""
SLOW = {"vp8", "av1", "h264 open"}
SAMPLINGS = [(2.0, None), (0.4, None), (50.0, None), (3.0, Excerpt(start_s=2.4, num_frames=5))]


def write(path: Path, encoding: Encoding) -> Path:
    """Write a scene that scrolls, so that a wrong reference shows in the pixels.

    A thread of its own encodes it: SVT-AV1 gives the thread that opens it real-time priority, if it may.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_encode, path, encoding).result()


def _encode(path: Path, encoding: Encoding) -> Path:
    scene = np.random.default_rng(0).integers(0, 255, (HEIGHT // 8, WIDTH, 3), np.uint8)
    scene = cv2.resize(scene, (8 * WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoding.encoder, rate=FPS, options=encoding.options)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.bit_rate = WIDTH, HEIGHT, 200_000
        stream.pix_fmt = "yuvj420p" if encoding.encoder == "mjpeg" else "yuv420p"
        for number in range(FPS * SECONDS):
            image: np.ndarray = np.ascontiguousarray(scene[:, 3 * number : 3 * number + WIDTH])
            container.mux(stream.encode(VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("codecs")
    return cache(lambda name: write(folder / f"{name}{ENCODINGS[name].suffix}", ENCODINGS[name]))


def read(path: Path, *decoders: Decode, fps: float, excerpt: Excerpt | None = None) -> list[Frame]:
    return list(sample_track(find_track(path), fps=fps, size=None, excerpt=excerpt, decoders=decoders))


def check_equal(found: list[Frame], exact: list[Frame]) -> None:
    """Compare indices, and pixel by pixel; decord's times are float32."""
    assert [frame.index for frame in found] == [frame.index for frame in exact]
    assert [frame.time_s for frame in found] == pytest.approx([frame.time_s for frame in exact], abs=1e-5)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(one.image, other.image)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the time of each picture that leaves the decoder."""
    times: list[int] = []
    receive = selective._SampledDecoder._receive

    def watch(decoder: selective._SampledDecoder, frames: Iterable[VideoFrame]) -> None:
        kept = list(frames)
        times.extend(frame.pts or 0 for frame in kept)
        receive(decoder, kept)

    monkeypatch.setattr(selective._SampledDecoder, "_receive", watch)
    return times


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in ENCODINGS])
def test_skipping_gives_the_frames_of_decoding_everything(videos: Callable[[str], Path], name: str) -> None:
    path = videos(name)
    for fps, excerpt in SAMPLINGS:
        if excerpt is not None and name in NOT_ENTERED:
            with pytest.raises(VideoError, match="does not begin with a key picture"):
                read(path, decode_sampled, fps=fps, excerpt=excerpt)
            continue
        found, exact = (read(path, decode, fps=fps, excerpt=excerpt) for decode in (decode_sampled, decode_with_pyav))
        check_equal(found, exact)


@pytest.mark.skipif(find_spec("decord") is None, reason="no decord here")
@pytest.mark.parametrize("name", ["h264", "hevc open", "mpeg4"])
def test_decord_continues_after_a_failure_with_the_frames_of_pyav(videos: Callable[[str], Path], name: str) -> None:
    def fail(_: Track) -> Iterator[Picture]:
        raise DecodeError("it broke")

    path = videos(name)
    for fps, excerpt in SAMPLINGS:
        found = read(path, fail, decode_with_decord, fps=fps, excerpt=excerpt)
        check_equal(found, read(path, decode_with_pyav, fps=fps, excerpt=excerpt))


@pytest.mark.parametrize(("name", "most"), [("h264", 60), ("mpeg4", 60), ("mjpeg", 3), ("hevc open", 144)])
def test_pictures_that_no_needed_one_depends_on_are_not_decoded(
    videos: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    times = count_decoded(monkeypatch)
    assert len(read(videos(name), decode_sampled, fps=0.5)) == 3
    assert 3 <= len(times) <= most

"""Files that state no times of their pictures, or one time for all: nothing is lost without a word."""

import re
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import VideoWarning, probe, read_frames
from stepscope.engine.video.writer import convert_for_browser, write_h264
from tests.support.streams.videos import grey

CURE = "ffmpeg -r 30 -i IN -c copy OUT.mp4"


def write_raw_h264(path: Path, num_pictures: int) -> None:
    """Write key pictures of 16 x 16 pixels, each of raw samples, without the part of the header that states a rate.

    **Source**: ITU-T H.264, 7.3.2.1.1, 7.3.2.2, 7.3.3 and 7.3.5; a code "1" is ue(0), "00101" ue(4), and so on.
    """
    size = "1" + "1"  # one macroblock wide, and one high
    settings = f"{66:08b}{0:08b}{10:08b}" + "1" + "1" + "011" + "010" + "0" + size + "1" + "1" + "0" + "0"
    pictures = "1" + "1" + "0" + "0" + "1" + "1" + "1" + "0" + "00" + "1" + "1" + "1" + "1" + "0" + "0"
    with path.open("wb") as file:
        for nal, bits in ((0x67, settings), (0x68, pictures)):
            file.write(b"\0\0\0\1" + bytes([nal]) + to_bytes(bits + "1"))
        for number in range(num_pictures):
            idr = "1" if number % 2 else "010"
            header = "1" + "0001000" + "1" + "0000" + idr + "0" + "0" + "1" + "010" + "000011010"  # ue(25): raw samples
            samples = bytes([20 + number % 200]) * 256 + bytes([128]) * 128
            file.write(b"\0\0\0\1\x65" + to_bytes(header) + samples + b"\x80")


def to_bytes(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def write_stream(path: Path, codec: str, container: str, *, rate: int, pixels: str = "yuv420p") -> None:
    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
        for number in range(2 * rate):
            image = np.full((48, 64, 3), 20 + number, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
            frame.pts, frame.time_base = number, Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def without_times(content: bytes) -> bytes:
    """Return MPEG-TS or MPEG-PS whose packets of video have stuffing for their times. **Source**: H.222.0, 2.4.3.6."""
    changed = bytearray(content)
    for at in find_headers(content):
        end = at + 9 + changed[at + 8]
        changed[at + 7] &= 0x3F
        changed[at + 9 : end] = b"\xff" * (end - at - 9)
    return bytes(changed)


def find_headers(content: bytes) -> Iterator[int]:
    for found in re.finditer(rb"\x00\x00\x01[\xe0-\xef]", content):
        if content[found.start() + 7] & 0xC0:
            yield found.start()


def remux_h264(source: Path, target: Path, container: str, *, step_ms: int) -> None:
    with av.open(str(source)) as packets, av.open(str(target), "w", format=container) as file:
        stream = file.add_stream_from_template(packets.streams.video[0])
        for number, packet in enumerate(packets.demux(packets.streams.video[0])):
            if packet.size:
                packet.stream, packet.time_base = stream, Fraction(1, 1000)
                packet.pts = packet.dts = number * step_ms
                packet.duration = 0
                file.mux(packet)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "camera.h264"
    write_raw_h264(path, 300)
    return path


@pytest.mark.parametrize("kind", ["h264", "mpegts", "vob"])
def test_every_picture_without_a_time_is_read_at_25_per_second_with_a_warning(
    raw: Path, tmp_path: Path, kind: str
) -> None:
    path = raw
    if kind != "h264":
        path = tmp_path / "camera.ts"
        remux_h264(raw, path, kind, step_ms=40)
        path.write_bytes(without_times(path.read_bytes()))
    with pytest.warns(VideoWarning, match=CURE):
        frames = list(read_frames(path, fps=2.0))
    assert len(frames) == 24  # 300 pictures last 12 s
    assert [frame.image.mean() for frame in frames[:3]] == sorted({frame.image.mean() for frame in frames[:3]})
    info = probe(path)
    assert info.duration_s == pytest.approx(12.0)
    assert info.native_fps == pytest.approx(25.0)
    with pytest.warns(VideoWarning, match=CURE):
        convert_for_browser(path, tmp_path / "copy.mp4")
    assert probe(tmp_path / "copy.mp4").duration_s == pytest.approx(12.0)


def test_pictures_of_jpeg_without_a_container_are_read_at_25_per_second_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "camera.mjpeg"
    write_stream(path, "mjpeg", "mjpeg", rate=25, pixels="yuvj420p")
    with pytest.warns(VideoWarning, match=CURE):
        assert len(list(read_frames(path, fps=2.0))) == 4


@pytest.mark.parametrize(
    ("codec", "container"),
    [
        ("libx264", "h264"),
        ("libx265", "hevc"),
        ("mpeg2video", "mpeg2video"),
        ("mpeg4", "m4v"),
        ("libvpx-vp9", "ivf"),
        ("wrapped_avframe", "yuv4mpegpipe"),
    ],
)
def test_a_stream_that_states_its_rate_is_read_at_it_without_a_warning(
    tmp_path: Path, codec: str, container: str
) -> None:
    path = tmp_path / "stream.bin"
    write_stream(path, codec, container, rate=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frames = list(read_frames(path, fps=2.0))
    assert len(frames) in (4, 5)  # 60 pictures last 2 s; MPEG-2 adds the delay of its B-frames
    assert probe(path).native_fps == pytest.approx(30.0)


@pytest.mark.parametrize("container", ["matroska", "flv"])
def test_a_file_whose_pictures_all_have_one_time_is_refused_with_the_cure(
    raw: Path, tmp_path: Path, container: str
) -> None:
    path = tmp_path / "one_time.bin"
    remux_h264(raw, path, container, step_ms=0)
    for read in (lambda: list(read_frames(path, fps=2.0)), lambda: convert_for_browser(path, tmp_path / "copy.mp4")):
        with pytest.raises(VideoError, match=r"1000 pictures per second, .*ffmpeg -r 30 -i IN OUT\.mp4"):
            read()


def test_an_mp4_whose_pictures_last_no_time_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "boat.mp4"
    write_h264(path, map(grey, range(50)), fps=25)
    content = bytearray(path.read_bytes())
    at = content.index(b"stts") + 8
    for entry in range(int.from_bytes(content[at : at + 4], "big")):
        content[at + 8 + 8 * entry : at + 12 + 8 * entry] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"1000 pictures per second, .*ffmpeg -r 30"):
        list(read_frames(path, fps=2.0))


def test_an_mp4_without_its_index_names_the_index(tmp_path: Path) -> None:
    path = tmp_path / "boat.mp4"
    write_h264(path, map(grey, range(50)), fps=25)
    content = path.read_bytes()
    at = content.index(b"moov") - 4
    path.write_bytes(content[:at] + content[at + int.from_bytes(content[at : at + 4], "big") :])
    with pytest.raises(VideoError, match=r"its index .*moov.* is missing"):
        probe(path)

import wave
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import Frame, VideoWarning, find_damage, probe, read_frames
from stepscope.engine.video.writer import write_h264
from tests.support.paths import REAL_VIDEOS
from tests.support.streams.videos import level_of, write_at

REAL = REAL_VIDEOS


def expected_times(path: Path, *, fps: float) -> list[float]:
    """Work out by PyAV alone which times a sampling must give, from all readable pictures of the best stream."""
    times, end_s = list[float](), 0.0
    with av.open(str(path)) as container:
        stream = container.streams.best("video")
        assert isinstance(stream, VideoStream)
        try:
            for frame in container.decode(stream):
                assert isinstance(frame, VideoFrame)
                assert frame.time is not None
                assert frame.time_base is not None
                times.append(frame.time)
                end_s = frame.time + float(frame.duration * frame.time_base)
        except av.error.InvalidDataError:
            pass  # the damaged file: what came before is what can be read
    instants = [i / fps for i in range(int(end_s * fps) + 1) if i / fps < end_s - 6e-4]
    return [max(t for t in times if t <= instant + 6e-4) for instant in instants]


def sampled(path: Path, *, fps: float = 2) -> list[Frame]:
    return list(read_frames(path, fps=fps))


def test_two_fps_of_a_29_97_fps_video_do_not_drift(ntsc: Path) -> None:
    frames = sampled(ntsc)
    assert [frame.index for frame in frames] == list(range(21))  # 0, 0.5 .. 10.0 lie within 10.01 s
    assert all(-6e-4 <= frame.index / 2 - frame.time_s < 0.034 for frame in frames)  # the picture on display
    assert frames[-1].time_s == pytest.approx(299 * 1001 / 30000, abs=1e-4)
    for frame in frames:  # picture n is shown at n * 1001 / 30000 s with level n * 2 // 3
        assert level_of(frame.image) == pytest.approx(frame.time_s * 29.97 * 2 / 3, abs=3)


def test_images_are_rgb_bytes_of_the_displayed_size(tmp_path: Path) -> None:
    red = np.zeros((48, 64, 3), dtype=np.uint8)
    red[..., 0] = 255
    write_h264(tmp_path / "red.mp4", [red] * 3, fps=1)
    image = sampled(tmp_path / "red.mp4", fps=1)[0].image
    assert image.dtype == np.uint8
    assert image.shape == (48, 64, 3)
    assert image[24, 32].tolist() == pytest.approx([255, 0, 0], abs=6)


@pytest.mark.parametrize("name", ["vfr.mp4", "vfr.mkv"])
def test_variable_frame_rate_gives_true_times_and_a_slow_source_repeats_pictures(tmp_path: Path, name: str) -> None:
    times = [0, 0.1, 0.2, 1.3, 1.4, 3.0, 3.05, 3.1, 4.7, 5.1]
    frames = sampled(write_at(tmp_path / name, times))
    # instants             0    .5   1.0  1.5  2.0  2.5  3.0  3.5  4.0  4.5  5.0
    assert [round(f.time_s, 3) for f in frames] == [0, 0.2, 0.2, 1.4, 1.4, 1.4, 3.0, 3.1, 3.1, 3.1, 4.7]
    assert [round(level_of(f.image) / 20) for f in frames] == [0, 2, 2, 4, 4, 4, 5, 7, 7, 7, 8]


@pytest.mark.parametrize("name", ["late.mp4", "late.mkv"])
def test_a_stream_that_starts_late_counts_from_the_zero_of_the_file(tmp_path: Path, name: str) -> None:
    frames = sampled(write_at(tmp_path / name, [2.0, 2.4, 2.8, 3.2]))  # a warning of damage would be an error
    # instants                                                   0   .5 1.0 1.5 2.0 2.5  3.0
    assert [round(frame.time_s, 3) for frame in frames][:7] == [2, 2, 2, 2, 2, 2.4, 2.8]
    assert probe(tmp_path / name).duration_s == pytest.approx(3.4, abs=0.21)  # mkv: the last picture has no length


def test_an_mp4_with_a_too_short_header_has_its_true_length(tmp_path: Path) -> None:
    path = write_at(tmp_path / "short.mp4", [number / 10 for number in range(30)])
    content = bytearray(path.read_bytes())
    for box in (b"mdhd", b"mvhd"):  # version, times, time scale, duration: 4 bytes each
        at = content.index(box) + 20
        content[at : at + 4] = (int.from_bytes(content[at : at + 4], "big") // 3).to_bytes(4, "big")
    path.write_bytes(content)
    assert probe(path).duration_s == pytest.approx(3.0, abs=0.1)
    assert len(sampled(path)) == 6


def test_a_size_is_height_and_width_and_has_pixels(ntsc: Path) -> None:
    assert next(read_frames(ntsc, fps=2, size=(10, 30))).image.shape == (10, 30, 3)
    with pytest.raises(ValueError, match="size must be"):
        read_frames(ntsc, fps=2, size=(0, 10))


@pytest.mark.parametrize("fps", [0, float("nan")])
def test_a_rate_that_is_not_positive_and_finite_is_a_wrong_argument(ntsc: Path, fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be positive"):
        read_frames(ntsc, fps=fps)


def write_sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(16000))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: None, "no such file", id="missing"),
        pytest.param(lambda path: path.write_text("hello\n" * 100), "is no video that can be opened here", id="text"),
        pytest.param(lambda path: path.write_text("#EXTM3U\n#EXTINF:1,\na.ts\n"), "is a playlist or script", id="list"),
        pytest.param(lambda path: Image.new("RGB", (9, 9)).save(path, "png"), "is a picture", id="picture"),
        pytest.param(write_sound, "no video stream", id="sound"),
    ],
)
@pytest.mark.parametrize("door", [probe, lambda path: read_frames(path, fps=2)], ids=["probe", "read_frames"])
def test_what_is_no_video_is_one_line_with_file_reason_and_cure(
    tmp_path: Path, make: Callable[[Path], None], reason: str, door: Callable[[Path], object]
) -> None:
    path = tmp_path / "clip.mp4"
    make(path)
    with pytest.raises(VideoError, match=reason) as caught:
        door(path)
    assert str(path) in str(caught.value)
    assert ";" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_one_readable_picture_is_an_error(ntsc: Path, tmp_path: Path) -> None:
    content = bytearray(ntsc.read_bytes())
    start = content.index(b"mdat") + 4
    content[start:] = b"\xff" * (len(content) - start)
    path = tmp_path / "noise.mp4"
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"noise\.mp4: no picture can be decoded"):
        list(read_frames(path, fps=2))


def test_a_truncated_file_gives_its_frames_and_one_warning(ntsc: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    path.write_bytes(ntsc.read_bytes()[: ntsc.stat().st_size * 6 // 10])
    with pytest.warns(VideoWarning, match=r"cut\.mp4: damaged, could be read up to (\d+\.\d+) s") as caught:
        frames = list(read_frames(path, fps=2))
    assert len(caught) == 1
    assert [frame.index for frame in frames] == list(range(len(frames)))
    up_to_s = float(str(caught[0].message).split("up to ")[1].split()[0])
    whole = sampled(ntsc)
    assert 4 < len(frames) < len(whole)
    assert frames[-1].index / 2 < up_to_s <= len(frames) / 2 + 1e-2
    assert [f.time_s for f in frames] == pytest.approx([f.time_s for f in whole[: len(frames)]], abs=1e-4)


def test_probe_tells_what_the_container_says(ntsc: Path) -> None:
    info = probe(ntsc)
    assert info.duration_s == pytest.approx(10.01)
    assert info.native_fps == pytest.approx(29.97, abs=1e-3)
    assert (info.width, info.height, info.codec) == (96, 64, "h264")
    assert info.is_browser_playable


@pytest.mark.parametrize(
    ("name", "codec", "is_playable"),
    [
        ("a.mov", "libx264", True),
        ("a.mkv", "libx264", False),
        ("a.mp4", "mpeg4", False),
        ("a.webm", "libvpx", True),
    ],
)
def test_browsers_play_h264_vp8_vp9_and_av1_in_mp4_mov_and_webm(
    tmp_path: Path, name: str, codec: str, is_playable: bool
) -> None:
    path = write_at(tmp_path / name, [n / 25 for n in range(25)], codec=codec)
    assert probe(path).is_browser_playable == is_playable
    assert probe(path).duration_s == pytest.approx(1, abs=0.05)


def test_probe_measures_the_packets_when_no_duration_is_stored(tmp_path: Path) -> None:
    path = write_at(tmp_path / "stream.ts", [n / 25 for n in range(50)])
    assert probe(path).duration_s == pytest.approx(2, abs=0.05)


def real(name: str) -> Path:
    path = REAL / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [
        ("av1_video.mkv", 10, (360, 640, 3)),  # 5.0 s
        ("h265_video.mp4", 2, (128, 128, 3)),  # 1.0 s
        ("nasa_13013.mp4", 27, (270, 480, 3)),  # 13.013 s, the better of its two streams
        ("video_90.mov", 1, (568, 320, 3)),  # 0.1 s
    ],
)
def test_real_files_give_their_frames(name: str, count: int, shape: tuple[int, int, int]) -> None:
    frames = sampled(real(name))
    assert len(frames) == count
    assert [frame.time_s for frame in frames] == pytest.approx(expected_times(real(name), fps=2), abs=1e-3)
    assert frames[-1].image.shape == shape
    assert find_damage(real(name)) is None


def test_the_real_damaged_file_gives_its_readable_frames_and_one_warning() -> None:
    with pytest.warns(VideoWarning, match=r"corrupted\.mp4: damaged, could be read up to 2\.80 s") as caught:
        frames = list(read_frames(real("corrupted.mp4"), fps=2))
    assert len(caught) == 1
    assert len(frames) == 6  # 28 pictures at 10 a second: 0, 0.5 .. 2.5 s
    assert [frame.time_s for frame in frames] == pytest.approx(expected_times(real("corrupted.mp4"), fps=2), abs=1e-3)
    assert find_damage(real("corrupted.mp4")) == pytest.approx(3.0)


def test_a_damaged_packet_is_found_without_decoding_the_pictures(tmp_path: Path) -> None:
    path = write_at(tmp_path / "late.mp4", [n / 25 for n in range(50)])
    assert find_damage(path) is None
    with av.open(str(path)) as container:
        timed = ((packet.pos, float((packet.pts or 0) * packet.time_base)) for packet in container.demux(video=0))
        position, time_s = next((position or 0, time_s) for position, time_s in timed if time_s > 1)
    content = bytearray(path.read_bytes())
    content[position : position + 4] = b"\xff" * 4  # the length of the first part of the picture
    path.write_bytes(content)
    assert find_damage(path) == pytest.approx(time_s)


def test_probe_of_the_real_files() -> None:
    assert probe(real("av1_video.mkv")).codec == "av1"
    assert not probe(real("h265_video.mp4")).is_browser_playable
    turned = probe(real("video_90.mov"))
    assert (turned.width, turned.height) == (320, 568)
    nasa = probe(real("nasa_13013.mp4"))
    assert nasa.duration_s == pytest.approx(13.013)
    assert nasa.is_browser_playable
    assert nasa.copy_reason == "browsers show its first video stream, not the best one"

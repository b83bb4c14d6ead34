"""Headers that lie about sizes and durations: memory and time stay bounded, and every refusal is a sentence."""

import itertools
import json
import math
import struct
import subprocess
import sys
import zlib
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import av
import pytest
from av import Packet
from av.video.frame import VideoFrame

from stepscope.app.core.videos import read_upload
from stepscope.engine.errors import VideoError
from stepscope.engine.video import packets
from stepscope.engine.video.reader import find_cut, probe, read_frames
from stepscope.engine.video.sound import has_damaged_sound, measure_peaks
from stepscope.engine.video.track import find_track
from stepscope.engine.video.trial import try_reading
from tests.support.streams.odd import progressive_jpeg, write_jpeg_video, write_recording
from tests.support.streams.videos import write_plain

SIZE: Final = 64
NUM_SMALL: Final = 25
FAST: Final = {"preset": "ultrafast", "tune": "zerolatency", "x264-params": "repeat-headers=1:annexb=1"}
PROGRAM: Final = """
import json, resource, sys, warnings
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2)
from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import find_cut, probe, read_frames
from stepscope.engine.video.sound import has_damaged_sound, measure_peaks
from stepscope.engine.video.track import find_track
warnings.simplefilter("ignore")
SOUND = (lambda path: len(measure_peaks(Path(path))[1]), lambda path: has_damaged_sound(find_track(Path(path))))
for call in (probe, find_cut, *SOUND, lambda path: sum(1 for _ in read_frames(path, fps=2))):
    try:
        answer = str(call(sys.argv[1]))
    except VideoError as error:
        answer = str(error)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
json.dump({"answer": answer, "peak_mb": int(peak.split()[1]) // 1024}, sys.stdout)
"""


def _read_alone(path: Path) -> dict[str, Any]:
    """Read a file in a process of limited memory; return the answer to its reading, and the peak in MB."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _encode_large() -> list[bytes]:
    context: Any = av.CodecContext.create("libx264", "w")
    context.width, context.height, context.pix_fmt = 10_000, 10_000, "yuv420p"
    context.time_base, context.framerate, context.options = Fraction(1, 25), 25, FAST
    return [bytes(packet) for frame in (_black(10_000, 0), None) for packet in context.encode(frame)]


def _black(size: int, index: int) -> VideoFrame:
    frame = VideoFrame(size, size, "yuv420p")
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.pts = index
    return frame


def _write_growing(path: Path) -> Path:
    """Write a video whose first pictures are small, and whose last one has 100 million pixels."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        stream.codec_context.options = FAST
        for index in range(NUM_SMALL):
            container.mux(stream.encode(_black(SIZE, index)))
        container.mux(stream.encode(None))
        for index, content in enumerate(_encode_large(), start=NUM_SMALL):
            packet = Packet(content)
            packet.pts = packet.dts = index
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 25), stream, True
            container.mux(packet)
    return path


@pytest.mark.slow
def test_pictures_that_grow_in_the_middle_are_not_decoded(tmp_path: Path) -> None:
    found = _read_alone(_write_growing(tmp_path / "h264.mkv"))
    assert int(found["answer"]) >= 2  # those before stay readable
    assert found["peak_mb"] < 350


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", 8 + len(content)) + kind + content


def test_a_picture_of_many_scans_is_not_decoded(tmp_path: Path) -> None:
    pictures = [progressive_jpeg(SIZE, num_scans=20)] * 4
    assert len(list(read_frames(write_jpeg_video(tmp_path / "a.avi", *pictures, side=SIZE), fps=2))) == 4
    pictures[3] = progressive_jpeg(SIZE, num_scans=101)
    path = write_jpeg_video(tmp_path / "b.avi", *pictures, side=SIZE)
    with pytest.raises(VideoError, match="a picture in JPEG has more than 100 scans; convert the video"):
        list(read_frames(path, fps=2))


def test_a_picture_that_takes_too_long_ends_a_video(ntsc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_s = [0.1]  # from one look at the clock to the next
    now_s = itertools.accumulate(iter(lambda: steps_s[0], None))
    monkeypatch.setattr(packets, "monotonic", now_s.__next__)
    said: list[str] = []
    deadline, steps_s[0] = packets.Deadline(), 10_000.0
    deadline.check()  # the program was stopped meanwhile
    steps_s[0] = 0.1
    for frame in read_frames(ntsc, fps=1.0, on_damage=said.append):
        if frame.index == 2:
            steps_s[0] = 100.0
    assert frame.index == 2
    assert "s (the next picture takes more than 60 s to decode); export" in said[0]
    monkeypatch.setattr(packets, "_MAX_STEP_S", math.inf)
    for read in (probe, find_cut, partial(read_frames, fps=1.0), measure_peaks):
        with pytest.raises(VideoError, match=r"the next picture takes more than 60 s to decode; convert it to H\.264"):
            read(ntsc)


def test_sound_that_no_program_records_is_not_resampled(tmp_path: Path) -> None:
    path, rate = tmp_path / "a.mkv", 1
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = SIZE, SIZE, "yuv420p"
        sound = container.add_stream("pcm_u8", rate=rate, layout="mono")
        for index in range(NUM_SMALL):
            container.mux(video.encode(_black(SIZE, index)))
        container.mux(video.encode(None))
        packet = Packet(b"\xff" * 12_000)
        packet.pts = packet.dts = 0
        packet.time_base, packet.stream = Fraction(1, rate), sound
        container.mux(packet)
    found = _read_alone(path)
    assert (found["answer"], found["peak_mb"] < 350) == ("2", True)
    assert len(measure_peaks(path)[1]) == 0
    assert has_damaged_sound(find_track(path)), "so that a browser gets a copy without it"


@pytest.mark.parametrize("stored", ["0:0:nan", "99999999999999:0:0"])
def test_a_stored_duration_that_is_no_time_is_ignored(tmp_path: Path, stored: str) -> None:
    path = write_plain(tmp_path / "video.mkv", width=SIZE, height=SIZE, num_pictures=25, fps=25)
    content = path.read_bytes()
    assert content.count(b"00:00:01.000000000") == 1
    path.write_bytes(content.replace(b"00:00:01.000000000", stored.encode().ljust(18, b"\0")))
    assert math.isclose(probe(path).duration_s, 1.0, abs_tol=0.05)
    assert read_upload(path, fps=2, max_duration_s=600).num_frames == 2


@pytest.mark.parametrize(
    ("fps", "number", "reason"),
    [
        (1_000_000, 50, "has more than 1000 pictures per second"),
        (1, 200, "has more than 120 pictures"),
    ],
)
def test_many_tiny_pictures_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fps: int, number: int, reason: str
) -> None:
    monkeypatch.setattr("stepscope.engine.video.packets.MAX_PICTURES", 120)
    monkeypatch.setattr("stepscope.engine.video.packets._NUM_COUNTED", 50)
    path = tmp_path / "tiny.y4m"
    path.write_bytes(b"YUV4MPEG2 W1 H1 F%d:1 C420jpeg\n" % fps + b"FRAME\n\0\0\0" * number)
    with pytest.raises(VideoError, match=reason):
        read_upload(path, fps=2, max_duration_s=600)


@pytest.mark.parametrize("kind", [b"stsz", b"trun"])
def test_a_header_that_states_millions_of_pictures_is_not_opened(tmp_path: Path, kind: bytes) -> None:
    path = write_recording(tmp_path / ("a.mp4" if kind == b"stsz" else "a.fragmented.mp4"), levels=range(20, 30))
    content, number = bytearray(path.read_bytes()), 85_000_000
    at = content.rindex(kind) + (12 if kind == b"stsz" else 8)
    content[at : at + 4] = number.to_bytes(4, "big")
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"states 850000\d\d pictures and packets, more than 8388608; cut it"):
        probe(path)


def test_tables_of_pictures_in_a_compressed_header_are_refused(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    content = path.read_bytes()
    at = content.index(b"moov") - 4
    packed = _box(b"cmov", _box(b"dcom", b"zlib"), _box(b"cmvd", bytes(4), zlib.compress(content[at:])))
    path.write_bytes(content[:at] + _box(b"moov", packed))
    with pytest.raises(VideoError, match="has tables of pictures where no program writes them, or compressed"):
        probe(path)


def test_an_mp4_behind_other_bytes_is_not_opened_as_one(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    path.write_bytes(b"\0\0\0\x10none" + bytes(8) + path.read_bytes())
    with pytest.raises(VideoError, match=r"is no video that can be opened here|cannot be opened as video"):
        probe(path)


def _element(name: str, *parts: bytes) -> bytes:
    """Return an element of Matroska, by its hexadecimal id."""
    content = b"".join(parts)
    return bytes.fromhex(name) + (2**56 + len(content)).to_bytes(8, "big") + content


def test_headers_that_grow_take_neither_memory_nor_time(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.live.webm", levels=range(20, 45))
    content = path.read_bytes()
    try_reading(path)
    at = content.index(bytes.fromhex("1f43b675"))
    tags = _element("1254c367", _element("7373", bytes.fromhex("67c880") * 4_000_000))
    path.write_bytes(content[:at] + tags + content[at:])
    with pytest.raises(VideoError, match="its header or its tables take too much memory or time"):
        read_upload(path, fps=2, max_duration_s=60)

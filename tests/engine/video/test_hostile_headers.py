"""Headers that lie about sizes and durations: memory and time stay bounded, and every refusal is a sentence."""

import itertools
import json
import math
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
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
from stepscope.engine.video.boxes import count_entries
from stepscope.engine.video.reader import find_cut, probe, read_frames
from stepscope.engine.video.sound import has_damaged_sound, measure_peaks
from stepscope.engine.video.track import find_track
from stepscope.engine.video.trial import try_reading
from tests.support.streams.odd import progressive_jpeg, write_jpeg_video, write_recording

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


def _encode(codec: str, size: int, number: int, options: dict[str, str]) -> list[bytes]:
    context: Any = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = size, size, "yuv420p"
    context.time_base, context.framerate, context.options = Fraction(1, 25), 25, options
    packets: list[bytes] = []
    for index in range(number):
        packets += map(bytes, context.encode(_black(size, index)))
    return packets + list(map(bytes, context.encode(None)))


def _black(size: int, index: int) -> VideoFrame:
    frame = VideoFrame(size, size, "yuv420p")
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.pts = index
    return frame


def _write_growing(path: Path, codec: str, options: dict[str, str]) -> Path:
    """Write a video whose first pictures are small, and whose last one has 100 million pixels."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        stream.codec_context.options = options
        for index in range(NUM_SMALL):
            container.mux(stream.encode(_black(SIZE, index)))
        container.mux(stream.encode(None))
        for index, content in enumerate(_encode(codec, 10_000, 1, options), start=NUM_SMALL):
            packet = Packet(content)
            packet.pts = packet.dts = index
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 25), stream, True
            container.mux(packet)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("h264.ts", "libx264", FAST),
        ("h264.mkv", "libx264", FAST),
        ("vp9.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}),
    ],
)
def test_pictures_that_grow_in_the_middle_are_not_decoded(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    found = _read_alone(_write_growing(tmp_path / name, codec, options))
    assert int(found["answer"]) >= 2  # those before stay readable
    assert found["peak_mb"] < 350


def test_a_picture_whose_header_states_a_smaller_size_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.mov"
    path.write_bytes(_png_video(_png(10_000)))
    found = _read_alone(path)
    assert "pixels" in found["answer"]
    assert found["peak_mb"] < 350


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", 8 + len(content)) + kind + content


def _png(size: int) -> bytes:
    """Return a black picture with 16 bits per channel."""
    packer = zlib.compressobj(1)
    row = bytes(1 + 8 * size)
    content = b"".join(packer.compress(row) for _ in range(size)) + packer.flush()
    header = struct.pack(">IIBBBBB", size, size, 16, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", content), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _png_video(picture: bytes, *, number: int = 4) -> bytes:
    """Return a mov of one repeated picture in PNG, whose header states 64 x 64 pixels."""
    matrix = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    size = struct.pack(">HH", SIZE, SIZE)
    entry = _box(b"png ", bytes(7), b"\1", bytes(16), size, struct.pack(">IIIH", 72 << 16, 72 << 16, 0, 1), bytes(32))
    entry = _box(entry[4:8], entry[8:], struct.pack(">Hh", 24, -1))
    start = _box(b"ftyp", b"qt  \0\0\0\0qt  ")
    table = _box(
        b"stbl",
        _box(b"stsd", struct.pack(">II", 0, 1), entry),
        _box(b"stts", struct.pack(">IIII", 0, 1, number, 500)),
        _box(b"stsc", struct.pack(">IIIII", 0, 1, 1, number, 1)),
        _box(b"stsz", struct.pack(f">III{number}I", 0, 0, number, *[len(picture)] * number)),
        _box(b"stco", struct.pack(">III", 0, 1, len(start) + 8)),
    )
    media = _box(
        b"mdia",
        _box(b"mdhd", struct.pack(">IIIIIHH", 0, 0, 0, 1000, 500 * number, 0, 0)),
        _box(b"hdlr", bytes(8), b"vide", bytes(14)),
        _box(b"minf", _box(b"vmhd", struct.pack(">IQ", 1, 0)), table),
    )
    head = _box(b"tkhd", struct.pack(">6I", 3, 0, 0, 1, 0, 500 * number), bytes(16), matrix, bytes(8))
    movie = _box(b"mvhd", struct.pack(">5IIH", 0, 0, 0, 1000, 500 * number, 1 << 16, 256), bytes(10), matrix, bytes(28))
    return start + _box(b"mdat", picture * number) + _box(b"moov", movie, _box(b"trak", head, media))


def test_a_picture_in_png_is_read_if_it_is_small(tmp_path: Path) -> None:
    path = tmp_path / "small.mov"
    path.write_bytes(_png_video(_png(SIZE)))
    assert len(list(read_frames(path, fps=2))) == 4


@pytest.mark.parametrize("at", [0, 3])
def test_a_picture_of_many_scans_is_not_decoded(tmp_path: Path, at: int) -> None:
    pictures = [progressive_jpeg(SIZE, num_scans=20)] * 4
    assert len(list(read_frames(write_jpeg_video(tmp_path / "a.avi", *pictures, side=SIZE), fps=2))) == 4
    pictures[at] = progressive_jpeg(SIZE, num_scans=101)
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


@pytest.mark.parametrize(("rate", "num_bytes"), [(1, 12_000), (8000, 2**25), (1000, 20_000), (2**30, 12_000)])
def test_sound_that_no_program_records_is_not_resampled(tmp_path: Path, rate: int, num_bytes: int) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("mpeg4", rate=25)
        video.width, video.height, video.pix_fmt = SIZE, SIZE, "yuv420p"
        sound = container.add_stream("pcm_u8", rate=rate, layout="mono")
        for index in range(NUM_SMALL):
            container.mux(video.encode(_black(SIZE, index)))
        container.mux(video.encode(None))
        packet = Packet(b"\xff" * num_bytes)
        packet.pts = packet.dts = 0
        packet.time_base, packet.stream = Fraction(1, rate), sound
        container.mux(packet)
    found = _read_alone(path)
    assert (found["answer"], found["peak_mb"] < 350) == ("2", True)
    assert len(measure_peaks(path)[1]) == 0
    assert has_damaged_sound(find_track(path)), "so that a browser gets a copy without it"


@pytest.mark.parametrize("stored", ["0:0:nan", "0:0:inf", "-9:0:0", "12", "a:b:c", "0:0:1e308", "99999999999999:0:0"])
def test_a_stored_duration_that_is_no_time_is_ignored(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "video.mkv"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        for index in range(25):
            container.mux(stream.encode(_black(SIZE, index)))
        container.mux(stream.encode(None))
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
        (1_000_000_000, 20, "no picture can be read"),  # it ends within the tolerance of times
    ],
)
def test_many_tiny_pictures_and_short_files_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fps: int, number: int, reason: str
) -> None:
    monkeypatch.setattr("stepscope.engine.video.packets.MAX_PICTURES", 120)
    monkeypatch.setattr("stepscope.engine.video.packets._NUM_COUNTED", 50)
    path = tmp_path / "tiny.y4m"
    path.write_bytes(b"YUV4MPEG2 W1 H1 F%d:1 C420jpeg\n" % fps + b"FRAME\n\0\0\0" * number)
    with pytest.raises(VideoError, match=reason):
        read_upload(path, fps=2, max_duration_s=600)


@pytest.mark.parametrize("kind", [b"stsz", b"trun"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_header_that_states_millions_of_pictures_is_not_opened(tmp_path: Path, kind: bytes, is_cut: bool) -> None:
    path = write_recording(tmp_path / ("a.mp4" if kind == b"stsz" else "a.fragmented.mp4"), levels=range(20, 30))
    content, number = bytearray(path.read_bytes()), 85_000_000
    at = content.rindex(kind) + (12 if kind == b"stsz" else 8)
    content[at : at + 4] = number.to_bytes(4, "big")
    if is_cut:
        start = content.rindex(b"moov" if kind == b"stsz" else b"moof") - 4
        content[start : start + 4] = (len(content) - start + 1).to_bytes(4, "big")
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"states 850000\d\d pictures and packets, more than 8388608; cut it"):
        probe(path)


def _edit_boxes(content: bytes, path: tuple[bytes, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return boxes in which those at a path, such as moov/trak, are replaced by what ``change`` returns for them."""
    edited, at = b"", 0
    while at < len(content):
        size, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        whole = content[at : at + size]
        if kind == path[0]:
            whole = change(whole) if len(path) == 1 else _box(kind, _edit_boxes(whole[8:], path[1:], change))
        edited, at = edited + whole, at + size
    return edited


TRACK: Final = (b"moov", b"trak")
EDITS: Final = struct.pack(">IIHH", 1000, 0, 1, 0) * 1_000_000
HIDDEN: Final[dict[str, tuple[tuple[bytes, ...], Callable[[bytes], bytes]]]] = {
    "a track in another box": (TRACK, lambda track: _box(b"edts", track)),
    "a track among the samples": (TRACK, lambda track: _box(b"trak", _box(b"stbl", _box(b"stsd", track)))),
    "a compressed header": (
        (b"moov",),
        lambda whole: _box(
            b"moov", _box(b"cmov", _box(b"dcom", b"zlib"), _box(b"cmvd", bytes(4), zlib.compress(whole)))
        ),
    ),
    "an outermost track": ((b"moov",), lambda whole: _box(b"moov", whole[8:116]) + whole[116:]),
    "a header of 128 MiB": ((b"moov",), lambda whole: _box(b"moov", whole[8:], _box(b"free", bytes(2**27)))),
    "an endless box": (TRACK, lambda track: _box(b"udta", (2**31).to_bytes(4, "big") + track[4:])),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_tables_of_pictures_at_other_places_are_refused(tmp_path: Path, name: str) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    path.write_bytes(_edit_boxes(path.read_bytes(), *HIDDEN[name]))
    with pytest.raises(VideoError, match="has tables of pictures where no program writes them, or compressed"):
        probe(path)


@pytest.mark.parametrize("start", [b"\0\0\0\x10none" + bytes(8), bytes(4), b"ID3\4\0\0\0\0\0\0"])
def test_an_mp4_behind_other_bytes_is_not_opened_as_one(tmp_path: Path, start: bytes) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    path.write_bytes(start + path.read_bytes())
    with pytest.raises(VideoError, match=r"not a video container|cannot be opened as video"):
        probe(path)


def test_samples_count_once_for_each_edit(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    edits = _box(b"elst", struct.pack(">II", 0, 1_000_000), EDITS)
    path.write_bytes(_edit_boxes(path.read_bytes(), (*TRACK, b"edts"), lambda _: _box(b"edts", edits)))
    with pytest.raises(VideoError, match=r"states 9999990 pictures and packets"):
        probe(path)


def test_sound_counts_by_parts_of_its_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.mov"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        for time_s in range(4):
            frame = av.AudioFrame(format="s16", layout="stereo", samples=8000)
            frame.sample_rate, frame.pts = 8000, 8000 * time_s
            container.mux(stream.encode(frame))
    assert count_entries(path) <= 4 * (1 + 8000 // 512)
    content, tables = path.read_bytes(), (*TRACK, b"mdia", b"minf", b"stbl")
    chunks, places = struct.pack(">IIIII", 0, 1, 1, 2**31 - 1, 1), struct.pack(">II9I", 0, 9, *[40] * 9)
    content = _edit_boxes(content, (*tables, b"stsc"), lambda _: _box(b"stsc", chunks))
    content = _edit_boxes(content, (*tables, b"stco"), lambda _: _box(b"stco", places))
    path.write_bytes(content)
    with pytest.raises(VideoError, match=r"states \d{7,} pictures and packets"):
        probe(path)


def test_a_file_of_millions_of_boxes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(_box(b"ftyp", b"isom") + _box(b"free") * (2**21 + 1))
    with pytest.raises(VideoError, match="has more than 2097152 boxes"):
        probe(path)


@pytest.mark.parametrize("is_fragmented", [False, True])
def test_the_entries_of_a_file_are_counted(tmp_path: Path, is_fragmented: bool) -> None:
    path = write_recording(tmp_path / ("a.fragmented.mp4" if is_fragmented else "a.mp4"), levels=range(20, 30))
    assert count_entries(path) == 10


def _crc(content: bytes) -> bytes:
    """Return the check sum of a section. **Source**: ISO/IEC 13818-1, annex A."""
    rest = 2**32 - 1
    for byte in content:
        rest ^= byte << 24
        for _ in range(8):
            rest = (rest << 1 ^ (0x04C11DB7 if rest >> 31 else 0)) & 2**32 - 1
    return rest.to_bytes(4, "big")


def _programs(index: int) -> bytes:
    """Return the packets of a table of 250 programs that no other has. **Source**: ISO/IEC 13818-1, 2.4.4."""
    entries = [struct.pack(">HH", 1 + 250 * index + at, 0xE100 + at) for at in range(250)]
    content = b"\0" + (0xB009 + 1000).to_bytes(2, "big") + bytes([0, 1, 0xC1, 0, 0]) + b"".join(entries)
    payload = b"\0" + content + _crc(content)
    parts = [payload[at : at + 184].ljust(184, b"\xff") for at in range(0, len(payload), 184)]
    return b"".join(struct.pack(">BHB", 71, 0 if at else 0x4000, 16 + at) + part for at, part in enumerate(parts))


def test_programs_without_an_end_are_refused_in_time(tmp_path: Path) -> None:
    whole = write_recording(tmp_path / "a.ts", levels=range(20, 30)).read_bytes()
    path, middle = tmp_path / "b.ts", len(whole) // 376 * 188
    path.write_bytes(whole[:middle] + _programs(0) + _programs(1) + whole[middle:])
    try_reading(path)
    path.write_bytes(whole[:middle] + b"".join(map(_programs, range(100))) + whole[middle:])
    with pytest.raises(VideoError, match="its tables take too much memory or time"):
        try_reading(path)


def _element(name: str, *parts: bytes) -> bytes:
    """Return an element of Matroska, by its hexadecimal id."""
    content = b"".join(parts)
    return bytes.fromhex(name) + (2**56 + len(content)).to_bytes(8, "big") + content


GROWING: Final = {
    "tags": _element("1254c367", _element("7373", bytes.fromhex("67c880") * 4_000_000)),
    "chapters": _element("1043a770", _element("45b9", b"\xb6\x80" * 6_000_000)),
    "attachments": _element("1941a469", bytes.fromhex("61a780") * 4_000_000),
    "encodings": _element("1654ae6b", _element("ae", _element("6d80", bytes.fromhex("624080") * 4_000_000))),
    "block additions": _element(
        "1f43b675", _element("a0", _element("a1", b"\x81\0\0\0" + bytes(50)), _element("75a1", b"\xa6\x80" * 6_000_000))
    ),
    "names of tags": _element(
        "1254c367",
        _element("7373", *(b"\x67\xc8\x8c\x45\xa3\x85%05x\x44\x87\x81b" % number for number in range(100_000))),
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_headers_that_grow_take_neither_memory_nor_time(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w", options={"live": "1"}) as container:
        stream: Any = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        for index in range(NUM_SMALL):
            container.mux(stream.encode(_black(SIZE, index)))
        container.mux(stream.encode(None))
    content = path.read_bytes()
    try_reading(path)
    at = content.index(bytes.fromhex("1654ae6b" if name == "encodings" else "1f43b675"))
    path.write_bytes(content[:at] + GROWING[name] + content[at:])
    with pytest.raises(VideoError, match="its header or its tables take too much memory or time"):
        read_upload(path, fps=2, max_duration_s=60)

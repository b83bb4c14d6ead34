"""Odd files: display matrices, recordings that follow each other in one file, and HDR."""

import io
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from PIL import Image

MATRICES: Final = {
    "plain": (1, 0, 0, 1),
    "hflip": (-1, 0, 0, 1),
    "vflip": (1, 0, 0, -1),
    "180": (-1, 0, 0, -1),
    "90": (0, 1, -1, 0),
    "270": (0, -1, 1, 0),
    "transpose": (0, 1, 1, 0),
    "transverse": (0, -1, -1, 0),
}
"""a, b, c and d by name: (x, y) is displayed at (a x + c y, b x + d y), moved into view (ISO/IEC 14496-12, 8.3.2)."""


def write_matrix(path: Path, source: Path, *, name: str) -> Path:
    """Copy an mp4 and write a matrix of ``MATRICES`` into its tkhd box."""
    one = 1 << 16
    a, b, c, d = (one * value for value in MATRICES[name])
    content = bytearray(source.read_bytes())
    at = content.index(b"tkhd") + 4 + 40
    content[at : at + 36] = b"".join(
        value.to_bytes(4, "big", signed=True) for value in (a, b, 0, c, d, 0, 0, 0, 1 << 30)
    )
    path.write_bytes(content)
    return path


def progressive_jpeg(side: int, *, num_scans: int) -> bytes:
    """Return a grey picture of so many scans, the last of which adds nothing to the one before."""
    file, image = io.BytesIO(), Image.new("L", (side, side), 128)
    image.save(file, "JPEG", progressive=True)
    content = file.getvalue()
    end = content.index(b"\xff\xd9")
    scan = content[content.rindex(b"\xff\xc4", 0, end) : end]  # with its table
    return content[:end] + scan * (num_scans - content[:end].count(b"\xff\xda")) + content[end:]


def write_jpeg_video(path: Path, *pictures: bytes, side: int) -> Path:
    """Write an AVI of JPEG pictures, 2 a second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=2)
        stream.width = stream.height = side
        stream.pix_fmt = "yuvj420p"
        for number, picture in enumerate(pictures):
            packet = av.Packet(picture)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 2), True
            packet.pts = packet.dts = number
            container.mux(packet)
    return path


def append(path: Path, *parts: Path) -> Path:
    """Write the contents of files one after the other."""
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def write_recording(path: Path, *, levels: Iterable[int], start_s: int = 0, width: int = 96) -> Path:
    """Write grey pictures at 10 a second; the kind is the name after the first dot, such as ``live.webm``."""
    kind = path.name.partition(".")[2]
    options = {
        "live.webm": {"live": "1"},
        "front.mp4": {"movflags": "faststart"},
        "fragmented.mp4": {"movflags": "+frag_keyframe+empty_moov+default_base_moof"},
        "cut.mp4": {"movflags": "+frag_keyframe+delay_moov", "avoid_negative_ts": "disabled"},
        "mkv": {"avoid_negative_ts": "disabled"},
        "webm": {"avoid_negative_ts": "disabled"},
    }.get(kind, {})
    codec = {"webm": "libvpx", "flv": "flv"}.get(path.suffix[1:], "libx264")
    coding = {"g": "20", "bf": "0" if kind == "fragmented.mp4" else "2"} if codec == "libx264" else {}
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=10, options=coding)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, 64, "yuv420p"
        for number, level in enumerate(levels):
            frame = VideoFrame.from_ndarray(np.full((64, width, 3), level, np.uint8), format="rgb24")
            frame.pts, frame.time_base = 10 * start_s + number, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_hdr(path: Path, colours: Sequence[tuple[int, int, int]], *, transfer: str) -> Path:
    """Write squares of sRGB colours, whose white is at 203 cd/m2, in PQ or HLG and BT.2020 (ITU-R BT.2408, BT.2100)."""
    value = np.array(colours) / 255
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4) * 203
    to_bt2020 = [[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]]
    light = light @ np.array(to_bt2020).T
    luma = np.array([0.2627, 0.6780, 0.0593])
    if transfer == "pq":
        power = (light / 10_000) ** 0.1593017578125
        code = ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** 78.84375
    else:
        display = np.maximum(light @ luma, 1e-9)[:, None] / 1000
        scene = light / 1000 / display ** (0.2 / 1.2)
        high = 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-9)) + 0.55991073
        code = np.where(scene <= 1 / 12, np.sqrt(3 * scene), high)
    y = code @ luma
    planes = [64 + 876 * y, 512 + 896 * (code[:, 2] - y) / 1.8814, 512 + 896 * (code[:, 0] - y) / 1.4746]
    names = {"pq": "smpte2084", "hlg": "arib-std-b67"}
    x265 = f"lossless=1:colorprim=bt2020:colormatrix=bt2020nc:transfer={names[transfer]}:log-level=none"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx265", rate=2, options={"x265-params": x265})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64 * len(colours), 64, "yuv420p10le"
        frame = VideoFrame(stream.width, stream.height, "yuv420p10le")
        for plane, codes, side in zip(frame.planes, planes, (64, 32, 32), strict=True):
            samples = np.zeros((side, plane.line_size // 2), np.uint16)
            samples[:, : side * len(colours)] = np.repeat(np.round(codes), side)
            plane.update(samples.tobytes())
        for number in range(4):
            frame.pts, frame.time_base = number, Fraction(1, 2)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_edits(path: Path, edits: Sequence[tuple[float, float | None]]) -> None:
    """Replace the edit list of an mp4; each edit has a length and the begin of its pictures, or None, in seconds."""
    content = bytearray(path.read_bytes())
    clock, media_clock = (int.from_bytes(content[content.index(name) + 16 :][:4], "big") for name in (b"mvhd", b"mdhd"))
    at = content.index(b"elst") - 4
    (first,) = struct.unpack_from(">i", content, at + 20)  # time of the first picture
    table = struct.pack(">4sII", b"elst", 0, len(edits))
    for length_s, begin_s in edits:
        begin = -1 if begin_s is None else first + round(begin_s * media_clock)
        table += struct.pack(">IiI", round(length_s * clock), begin, 1 << 16)
    old_size = int.from_bytes(content[at : at + 4], "big")
    new = struct.pack(">I", 4 + len(table)) + table
    content[at : at + old_size] = new
    for name in (b"edts", b"trak", b"moov"):
        box = content.rindex(name, 0, at) - 4
        size = int.from_bytes(content[box : box + 4], "big") + len(new) - old_size
        content[box : box + 4] = size.to_bytes(4, "big")
    path.write_bytes(content)


def add_sound(path: Path, source: Path, *, length_s: int, loud_s: tuple[float, float] = (0, 0)) -> Path:
    """Copy a video and add sound: silence, and a tone of half the full scale from one time to another."""
    options = {"live": "1"} if path.name.endswith("live.webm") else {}
    with av.open(str(source)) as old, av.open(str(path), "w", options=options) as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        sound = new.add_stream("aac" if path.suffix == ".mp4" else "libopus", rate=48_000, layout="mono")
        for packet in old.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                new.mux(packet)
        for number in range(length_s * 50):
            times_s = (960 * number + np.arange(960)) / 48_000
            is_loud = (loud_s[0] <= times_s) & (times_s < loud_s[1])
            tone = np.where(is_loud, np.sin(times_s * 2 * np.pi * 440) / 2, 0)[None]
            frame = AudioFrame.from_ndarray(tone.astype(np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 48_000, 960 * number
            new.mux(sound.encode(frame))
        new.mux(sound.encode(None))
    return path


def store_duration(path: Path, *, duration_s: float) -> None:
    """Replace the duration in the header of a Matroska file of less than a minute."""
    content = bytearray(path.read_bytes())
    at = content.index(b"\x44\x89\x88") + 3  # RFC 9559: Duration, 8 bytes
    content[at : at + 8] = struct.pack(">d", 1000 * duration_s)
    while (at := content.find(b"00:00:", at)) >= 0:  # the tag of each stream
        content[at : at + 18] = b"00:00:%012.9f" % duration_s
        at += 18
    path.write_bytes(content)

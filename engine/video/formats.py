"""The container formats that are opened. FFmpeg supports more, some of which open other files, or never end.

A playlist, a script or a picture sequence names further files. Its author could read files of this machine, occupy a
thread without an end, or fill the memory with a file that names itself.
"""

from pathlib import Path
from typing import Final

from av.container import InputContainer
from av.video.codeccontext import VideoCodecContext

from stepscope.engine.video.packets import MATROSKA, MP4, RAW_WITHOUT_RATE

FORMATS: Final = (
    *(MP4, MATROSKA, "avi", "mpegts", "mpeg", "flv", "ogg", "asf", "mxf", "gif"),
    *("h264", "hevc", "mpegvideo", "m4v", *RAW_WITHOUT_RATE, "ivf", "dv", "nut", "yuv4mpegpipe", "wav", "mp3"),
)
"""FFmpeg's names of containers, and of raw streams. None opens other files; sound alone is refused later."""
FORMATS_RULE: Final = "give an mp4, mov, mkv, webm or gif file, for example"
MAX_PIXELS: Final = 8192 * 4320
"""Maximum size of a picture in pixels (8K): it determines the memory of the decoder."""
MAX_SAMPLES: Final = 2**24
"""Maximum number of samples of all channels of one frame of sound."""
OPEN_TIMEOUT_S: Final = 30.0
"""Longest time in which FFmpeg may find the streams of a file, in seconds."""

_NUM_START_BYTES: Final = 1024
_ATOMS: Final = frozenset(
    {b"ftyp", b"styp", b"sidx", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid"}
)
"""Types of the first box of an mp4 or mov file. **Source**: ISO/IEC 14496-12, and Apple's QuickTime File Format."""
_BEGINNINGS: Final = (b"\x1aE\xdf\xa3", b"\x00\x00\x01\xba", b"FLV\x01", b"OggS\x00", b"\x30\x26\xb2\x75", b"GIF8")
"""First bytes of Matroska, MPEG-PS, FLV, Ogg, ASF and GIF."""
_PACKET_BYTES: Final = (188, 192)
"""Bytes of a packet of MPEG-TS, and of one with a time before it (m2ts)."""
_PICTURES: Final = (b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*")
"""First bytes of PNG, JPEG and TIFF."""
_NAMES_FILES: Final = (b"#extm3u", b"ffconcat", b"<mpd", b"<compositionplaylist", b"<smoothstreamingmedia", b"c=in ip")
"""Texts by which FFmpeg recognises playlists, scripts and descriptions of sessions; it compares up to a zero byte."""


def input_options(*, protocols: str = "file", formats: tuple[str, ...] = FORMATS) -> dict[str, str]:
    """Return the options with which FFmpeg opens only these formats, through these protocols.

    FFmpeg detects the format, and refuses others with ``EINVAL`` before their own code reads the file. It may decode
    pictures to find their size, and stops at larger ones than ``MAX_PIXELS``.
    """
    return {
        "format_whitelist": ",".join(formats),
        "protocol_whitelist": protocols,
        "max_pixels": str(MAX_PIXELS),
        "max_samples": str(MAX_SAMPLES),
    }


def limit_pixels(container: InputContainer) -> None:
    """Let the decoders of an open file refuse pictures of more than ``MAX_PIXELS``, and sound of ``MAX_SAMPLES``.

    The header states the size of the first picture at most: any later one may be larger.
    """
    for stream in (*container.streams.video, *container.streams.audio):
        if stream.codec_context is not None:  # a codec that FFmpeg does not have
            name, limit = ("max_samples", MAX_SAMPLES) if stream.type == "audio" else ("max_pixels", MAX_PIXELS)
            stream.codec_context.options = {**stream.codec_context.options, name: str(limit)}


def has_refused_size(context: VideoCodecContext) -> bool:
    """Return whether a decoder that failed may have failed at a picture of more than ``MAX_PIXELS``.

    Some decoders then keep the size of that picture, others none.
    """
    return not 0 < context.width * context.height <= MAX_PIXELS


def find_formats(path: Path) -> tuple[str, ...]:
    """Return those of ``FORMATS`` that a file may have: an mp4, if it begins with a box.

    FFmpeg also finds an mp4 behind other bytes, where no entries are counted.
    """
    with path.open("rb") as file:
        is_mp4 = file.read(8)[4:] in _ATOMS
    return tuple(name for name in FORMATS if is_mp4 or name != MP4)


def explain_refused(path: Path) -> str:
    """Return why a file of a format that is not among ``FORMATS`` is not opened."""
    with path.open("rb") as file:
        start = file.read(_NUM_START_BYTES)
    if any(mark in start.lower() for mark in _NAMES_FILES):
        return "is a playlist or script, which names other files and is not opened"
    if start.startswith(_PICTURES) or start[8:12] == b"WEBP":
        return "is a picture, and no video"
    return "is no video that can be opened here"


def begins_like_video(path: Path) -> bool:
    """Return whether a file begins with the signature of a container, and with no text that names other files.

    For decord and OpenCV: they open every format that their own FFmpeg detects, which may be another than PyAV's.
    """
    with path.open("rb") as file:
        start = file.read(_NUM_START_BYTES)
    text, zero, _ = start.partition(b"\0")
    if not zero or any(mark in text.lower() for mark in _NAMES_FILES):
        return False
    is_avi = start.startswith(b"RIFF") and start[8:16] == b"AVI LIST"
    is_transport = any(
        start[size - 188 :: size][:3] == b"GGG"
        for size in _PACKET_BYTES  # each packet begins with 0x47
    )
    return start[4:8] in _ATOMS or is_avi or is_transport or start.startswith(_BEGINNINGS)

"""The video stream that is read from a file, as its container describes it."""

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from engine.errors import VideoError, first_line

STORES_DURATION = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi"})
"""Containers whose header stores the duration of each stream; for the rest, FFmpeg estimates it from the bit rate."""
_BROWSER_TIMED = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"})
"""Containers that browsers play; ``video.currentTime`` counts from time 0 of the file, not from the first picture."""
NOT_VIDEO = frozenset({"tty", "image2", "hls", "dash", "concat"})
"""Formats that FFmpeg opens as video although they are not: text as terminal art, still pictures, playlists."""


EPSILON_S = 6e-4
"""Tolerance for rounded times: a picture may start this much after an instant. Matroska rounds to 1 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The instants at which a video is sampled: instant ``i`` is ``start_s + i / fps``."""

    fps: float
    start_s: float = 0.0
    num_frames: float = math.inf
    """Number of instants."""

    def is_due(self, index: int, until_s: float) -> bool:
        """Return whether instant ``index`` exists and a picture on display up to ``until_s`` seconds covers it."""
        return index < self.num_frames and self.start_s + index / self.fps < until_s - EPSILON_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The video stream of a file that every decoder must read, as described by the container.

    The names of container, codec and pixel format are FFmpeg's, such as ``mov,mp4,..``, ``h264`` and ``yuv420p``.
    """

    path: Path
    container: str
    stream_index: int
    """Index among the video streams of the file; browsers play the first one."""
    start_s: float
    """Presentation time of the first picture on the file's clock, in seconds."""
    zero_s: float
    """Time on the file's clock that is 0 s in a browser, in seconds; ``start_s`` if browsers do not play the file."""
    duration_s: float | None
    """End of the stream according to the header, from ``zero_s``, in seconds; None if missing or clearly too short."""
    fps: float | None
    """Average pictures per second; None if the header has none."""
    width: int
    """Width as displayed, after rotation, in pixels; the height likewise."""
    height: int
    codec: str
    pixel_format: str
    begin_s: float = 0.0
    """Time before which no pictures are needed, from ``zero_s``; a decoder may leave them out."""
    sampling: Sampling | None = None
    """Instants whose pictures are needed; None if every picture is. A decoder need not decode the others."""

    @property
    def step_s(self) -> float:
        """Average time between two pictures, in seconds; 0.04 if unknown."""
        return 1 / self.fps if self.fps else 0.04

    @property
    def is_browser_playable(self) -> bool:
        """Whether Chromium plays the file and shows this stream."""
        is_webm = self.path.suffix.lower() == ".webm"
        if self.stream_index > 0 or not (is_webm or self.container.startswith("mov,")):
            return False
        if self.codec == "h264":
            return not is_webm and self.pixel_format in ("yuv420p", "yuvj420p")
        return self.codec in ("vp8", "vp9", "av1")

    def lasts_beyond(self, time_s: float) -> bool:
        """Whether the header declares an end after ``time_s`` by more than rounding: 0.25 s and 2.5 pictures."""
        return self.duration_s is not None and time_s < self.duration_s - max(0.25, 2.5 * self.step_s)


def open_container(path: Path) -> InputContainer:
    """Open a file with PyAV. Raises ``VideoError`` if it is missing, empty or not a media file."""
    if not path.exists():
        raise VideoError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise VideoError(f"{path}: not a file but a directory or device; give the path of one video")
    try:
        if path.stat().st_size == 0:
            raise VideoError(f"{path}: the file is empty (0 bytes); copy or download it again")
        return open_media(path)
    except (av.error.FFmpegError, OSError) as error:
        cure = "give an mp4, mov, mkv or webm file, or copy it again if it is one"
        raise VideoError(f"{path}: cannot be opened as video ({reason_of(error)}); {cure}") from error


def open_media(path: Path, *, hwaccel: HWAccel | None = None) -> InputContainer:
    """Open a file with PyAV, which raises its own errors; ``hwaccel`` is the device that decodes."""
    # "file:" so that a colon in a name does not select a protocol; the whitelist keeps playlists off the network
    return av.open(f"file:{path}", metadata_errors="replace", options={"protocol_whitelist": "file"}, hwaccel=hwaccel)


def find_track(path: Path, *, max_pixels: int | None = None) -> Track:
    """Describe the video stream to read: FFmpeg's best stream, which decord reads too.

    Raises ``VideoError`` if the file has no video stream, or, before decoding, if its pictures have more than
    ``max_pixels``.
    """
    with open_container(path) as container:
        name = container.format.name
        stream = None if name in NOT_VIDEO or name.endswith("_pipe") else container.streams.best("video")
        if not isinstance(stream, VideoStream) or Disposition.attached_pic in stream.disposition:
            raise VideoError(f"{path}: has no video stream (its format is {name}); give a video file")
        if max_pixels is not None and stream.width * stream.height > max_pixels:
            raise VideoError(
                f"{path}: its pictures have {stream.width} x {stream.height} pixels, more than the limit of "
                f"{max_pixels / 1e6:.1f} million; scale it down"
            )
        width, height = stream.width, stream.height
        with suppress(av.error.FFmpegError, StopIteration):
            first = next(container.decode(stream))  # only pictures carry the rotation
            is_turned = first.rotation % 180 != 0
            width, height = (first.height, first.width) if is_turned else (first.width, first.height)
        rate = stream.average_rate or stream.guessed_rate
        start_s = seconds_of(stream.start_time, stream)
        zero_s = 0.0 if start_s > 0 and name in _BROWSER_TIMED else start_s
        return Track(
            path=path,
            container=name,
            stream_index=container.streams.video.index(stream),
            start_s=start_s,
            zero_s=zero_s,
            duration_s=_stored_duration(container, stream, late_s=start_s - zero_s),
            fps=float(rate) if rate else None,
            width=width,
            height=height,
            codec=stream.codec_context.codec.canonical_name,  # "av1" for every AV1 decoder
            pixel_format=stream.codec_context.pix_fmt or "",
        )


def measure_packets(track: Track) -> tuple[int, float]:
    """Return the number of packets, one per picture, and the end of the last one in seconds, without decoding.

    For files whose header stores no duration. Raises ``VideoError`` if not even the first packet can be read.
    """
    num_packets, end_s = 0, 0.0
    with open_container(track.path) as container:
        stream = container.streams.video[track.stream_index]
        try:
            for packet in container.demux(stream):
                if packet.size == 0 or packet.is_discard:  # the end of the stream, or cut by an edit list
                    continue
                num_packets += 1
                begin_s = end_s if packet.pts is None else seconds_of(packet.pts, stream) - track.zero_s
                end_s = max(end_s, begin_s + (seconds_of(packet.duration, stream) or track.step_s))
        except av.error.FFmpegError as error:
            if num_packets == 0:
                raise VideoError(f"{track.path}: no picture can be read ({reason_of(error)}); copy it again") from error
    return num_packets, end_s


def _stored_duration(container: InputContainer, stream: VideoStream, *, late_s: float) -> float | None:
    """Return the end of the stream according to its header.

    Returns None if the header stores none, or one that is too short for its number of pictures. For example, 300
    pictures at 30 fps need 10 s; a stored duration of 4 s is not trusted.
    """
    if container.format.name not in STORES_DURATION:
        return None
    if stream.duration:
        duration_s = seconds_of(stream.duration, stream)
        needed_s = float(stream.frames / stream.average_rate) if stream.average_rate else 0.0
        is_too_short = needed_s > duration_s + max(0.25, 2.5 * needed_s / max(1, stream.frames))
        return None if is_too_short else late_s + duration_s  # the stored value excludes the delay of the first picture
    if "DURATION" in stream.metadata:  # Matroska: 00:00:05.000000000
        hours, minutes, seconds = stream.metadata["DURATION"].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if container.duration and len(container.streams) == 1:
        return container.duration / av.time_base
    return None


def seconds_of(ticks: int | None, stream: VideoStream) -> float:
    """Convert a time of a stream from ticks to seconds; 0 if the time or the time base is missing."""
    if ticks is None or (time_base := stream.time_base) is None:
        return 0.0
    return ticks * time_base.numerator / time_base.denominator  # rounded once, as a Fraction is, and 5 times faster


def reason_of(error: BaseException) -> str:
    """Return one short line from a library's error; decord's messages are long traces."""
    return str(getattr(error, "strerror", None) or first_line(error)).rsplit("] ", maxsplit=1)[-1][:160]

"""The decoders behind ``engine.video.reader``: decord, PyAV and OpenCV, each a generator of pictures.

All three follow one contract. They yield the pictures of the same ``Track`` in display order, upright, each with its
true time on the browser's clock; ``fetch`` makes the image on demand. A decoder that cannot continue raises one
``DecodeError`` after its last readable picture. No type or exception of decord, PyAV or OpenCV leaves this module.
Rates, sampling and the choice of the decoder belong to ``engine.video.reader``. Pixels are taken as stored: a picture
with non-square pixels is not stretched.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import av
import av.logging
import cv2
import numpy as np
from av.container import InputContainer
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from engine.errors import VideoError

os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # read when OpenCV first opens a video
try:
    import decord
except (ImportError, OSError):  # no build for this platform, or a build that does not load
    decord = None
if decord is not None:
    decord.logging.set_level(decord.logging.QUIET)
av.logging.set_level(None)  # any level makes decoder threads wait for the GIL: closing a half-read file hung
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

STORES_DURATION = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi"})
"""Containers whose header stores the duration of each stream; for the rest, FFmpeg estimates it from the bit rate."""
_BROWSER_TIMED = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"})
"""Containers that browsers play; ``video.currentTime`` counts from time 0 of the file, not from the first picture."""
NOT_VIDEO = frozenset({"tty", "image2", "hls", "dash", "concat"})
"""Formats that FFmpeg opens as video although they are not: text as terminal art, still pictures, playlists."""
MAX_DECORD_PIXELS = 2560 * 1600
"""Largest picture to decode with decord, which holds about forty at once; PyAV and OpenCV hold only a few."""
SEEK_MARGIN_S = 1.0
"""Seconds to seek before the first needed picture: containers index decoding times, which precede display times."""
_THREAD_BYTES = 512 * 2**20


class DecodeError(VideoError):
    """A decoder cannot continue; the next one may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The video stream of a file that every decoder must read, as described by the container."""

    path: Path
    """The file."""
    container: str
    """FFmpeg's name of the container format."""
    stream_index: int
    """Index of the stream among all streams."""
    is_first: bool
    """Whether this is the first video stream, which browsers play."""
    start_s: float
    """Presentation time of the first picture on the file's clock, in seconds."""
    zero_s: float
    """Time on the file's clock that is 0 s in a browser, in seconds; ``start_s`` if browsers do not play the file."""
    duration_s: float | None
    """End of the stream according to the header, from ``zero_s``, in seconds; None if missing or clearly too short."""
    fps: float | None
    """Average pictures per second; None if the header has none."""
    width: int
    """Width as displayed, in pixels."""
    height: int
    """Height as displayed, in pixels."""
    codec: str
    """FFmpeg's name of the codec, such as ``h264``."""
    pixel_format: str
    """FFmpeg's name of the pixel format, such as ``yuv420p``."""
    begin_s: float = 0.0
    """Time before which no pictures are needed, from ``zero_s``; a decoder may leave them out."""

    @property
    def step_s(self) -> float:
        """Average time between two pictures, in seconds; 0.04 if unknown."""
        return 1 / self.fps if self.fps else 0.04

    def lasts_beyond(self, time_s: float) -> bool:
        """Whether the header declares an end after ``time_s`` by more than rounding: 0.25 s and 2.5 pictures."""
        return self.duration_s is not None and time_s < self.duration_s - max(0.25, 2.5 * self.step_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """One picture of the stream, not yet converted to an image."""

    time_s: float
    """True presentation time from ``Track.zero_s``, in seconds."""
    end_s: float
    """End of display if no picture follows, in seconds."""
    is_decoded: bool
    """Whether the picture was decoded. If not, only the index lists it, and ``fetch`` may fail."""
    fetch: Callable[[], np.ndarray]
    """Makes the image, uint8 [H, W, 3] RGB, upright. A picture that is never fetched costs little."""


def open_container(path: Path) -> InputContainer:
    """Open a file with PyAV. Raises ``VideoError`` if it is missing, empty or not a media file."""
    if not path.exists():
        raise VideoError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise VideoError(f"{path}: not a file but a directory or device; give the path of one video")
    try:
        if path.stat().st_size == 0:
            raise VideoError(f"{path}: the file is empty (0 bytes); copy or download it again")
        # "file:" so that a colon in a name does not select a protocol; the whitelist keeps playlists off the network
        return av.open(f"file:{path}", metadata_errors="replace", options={"protocol_whitelist": "file"})
    except (av.error.FFmpegError, OSError) as error:
        cure = "give an mp4, mov, mkv or webm file, or copy it again if it is one"
        raise VideoError(f"{path}: cannot be opened as video ({reason_of(error)}); {cure}") from error


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
        first = _first_frame(container, stream)
        width, height = (first.width, first.height) if first else (stream.width, stream.height)
        if first is not None and first.rotation % 180 != 0:
            width, height = height, width
        rate = stream.average_rate or stream.guessed_rate
        start_s = seconds_of(stream.start_time, stream)
        zero_s = 0.0 if start_s > 0 and name in _BROWSER_TIMED else start_s
        return Track(
            path=path,
            container=name,
            stream_index=stream.index,
            is_first=stream.index == container.streams.video[0].index,
            start_s=start_s,
            zero_s=zero_s,
            duration_s=_stored_duration(container, stream, late_s=start_s - zero_s),
            fps=float(rate) if rate else None,
            width=width,
            height=height,
            codec=stream.codec_context.codec.canonical_name,  # "av1" for every AV1 decoder
            pixel_format=stream.codec_context.pix_fmt or "",
        )


def decode_with_decord(track: Track) -> Iterator[Picture]:
    """Decode with decord. It seeks to a picture when it is fetched, so other pictures cost little."""
    if decord is None:
        raise DecodeError("decord is not installed")
    if track.width * track.height > MAX_DECORD_PIXELS:
        raise DecodeError("decord: holds too many pictures of this size at once")
    try:
        reader = decord.VideoReader(str(track.path))
        spans: np.ndarray = reader.get_frame_timestamp(range(len(reader))).astype(np.float64)  # [T, 2], from its index
        shape = tuple(reader[0].shape)  # decord calls narrow turned pictures [H, W, 4]
    except (decord.DECORDError, RuntimeError, IndexError, ValueError, TypeError) as error:
        raise DecodeError(f"decord: {reason_of(error)}") from error
    if shape != (track.height, track.width, 3) or abs(spans[0, 0] - track.start_s) > track.step_s / 2:
        raise DecodeError("decord: reads a stream of a different shape or start")
    for number, (begin, end) in enumerate(spans - track.zero_s):
        fetch = partial(_fetch_with_decord, reader, number)
        end = end if end > begin else begin + track.step_s
        yield Picture(time_s=float(begin), end_s=float(end), is_decoded=False, fetch=fetch)


def decode_with_pyav(track: Track) -> Iterator[Picture]:
    """Decode with PyAV in sequence. After a broken packet, continue at the next key picture."""
    failure: str | None = None
    is_clean = True  # pictures after a broken one depend on it, up to the next key picture
    end_s = 0.0
    with open_container(track.path) as container:
        stream = container.streams[track.stream_index]
        assert isinstance(stream, VideoStream)
        stream.thread_type = "AUTO"
        if track.width * track.height > MAX_DECORD_PIXELS:  # every thread holds a picture
            max_threads = max(1, _THREAD_BYTES // (3 * track.width * track.height))
            stream.codec_context.thread_count = min(max_threads, os.cpu_count() or 1)
        ticks = _find_seek(track)
        if ticks is not None:
            container.seek(ticks, stream=stream)
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                frames = packet.decode()
            except av.error.FFmpegError as error:
                failure = failure or f"PyAV: {reason_of(error)} after {end_s:.2f} s"
                is_clean = False
                continue
            for frame in frames:
                assert isinstance(frame, VideoFrame)
                is_clean = is_clean or frame.key_frame
                if not is_clean:
                    continue
                time_s = end_s if frame.pts is None else seconds_of(frame.pts, stream) - track.zero_s
                end_s = time_s + (seconds_of(frame.duration, stream) or track.step_s)
                yield Picture(time_s=time_s, end_s=end_s, is_decoded=True, fetch=partial(_upright, frame))
    if failure is not None:
        raise DecodeError(failure)


def decode_with_opencv(track: Track) -> Iterator[Picture]:
    """Decode with OpenCV in sequence, converting every picture to an image."""
    capture: Any = cv2.VideoCapture(str(track.path), cv2.CAP_FFMPEG)
    try:
        while True:
            is_read, image = capture.read()
            if not is_read:
                return
            if image.shape[:2] != (track.height, track.width):
                raise DecodeError("OpenCV: reads a different stream")
            time_s = float(capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000 + track.start_s - track.zero_s
            fetch = partial(np.ascontiguousarray, image[..., ::-1])
            yield Picture(time_s=time_s, end_s=time_s + track.step_s, is_decoded=True, fetch=fetch)
    except cv2.error as error:
        raise DecodeError(f"OpenCV: {reason_of(error)}") from error
    finally:
        capture.release()


def _find_seek(track: Track) -> int | None:
    """Return the seek position for ``track.begin_s`` in ticks of the stream; None to decode from the start.

    The seek is tried first, and used only if it lands on a key picture that is not after ``begin_s``.
    """
    if track.begin_s <= SEEK_MARGIN_S:
        return None
    with open_container(track.path) as container:
        stream = container.streams[track.stream_index]
        assert isinstance(stream, VideoStream)
        if stream.time_base is None:
            return None
        ticks = int((track.begin_s - SEEK_MARGIN_S + track.zero_s) / stream.time_base)
        try:
            container.seek(ticks, stream=stream)
            packet = next(container.demux(stream), None)
        except av.error.FFmpegError:
            return None  # the file has no index, or the index is damaged
        if packet is None or packet.pts is None or not packet.is_keyframe:
            return None
        return ticks if seconds_of(packet.pts, stream) - track.zero_s <= track.begin_s else None


def _fetch_with_decord(reader: Any, number: int) -> np.ndarray:
    try:
        image: np.ndarray = reader[number].asnumpy()
    except (decord.DECORDError, RuntimeError, IndexError, StopIteration) as error:
        raise DecodeError(f"decord: {reason_of(error)}") from error
    return image


def _upright(frame: VideoFrame) -> np.ndarray:
    quarter_turns = round(frame.rotation / 90)  # counterclockwise, as np.rot90 counts
    try:
        return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), quarter_turns))
    except (av.error.FFmpegError, ValueError) as error:
        raise DecodeError(f"PyAV: {reason_of(error)}") from error


def _first_frame(container: InputContainer, stream: VideoStream) -> VideoFrame | None:
    """Decode the first picture, because only pictures carry the rotation; None if it cannot be decoded."""
    try:
        return next(container.decode(stream), None)
    except av.error.FFmpegError:
        return None


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
    return 0.0 if ticks is None or stream.time_base is None else float(ticks * stream.time_base)


def reason_of(error: BaseException) -> str:
    """Return one short line from a library's error; decord's messages are long traces."""
    text = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
    return str(text).rsplit("] ", maxsplit=1)[-1][:160]

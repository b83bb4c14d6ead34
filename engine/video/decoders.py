"""The decoders of every picture behind ``engine.video.reader``: PyAV, decord and OpenCV, each a generator of pictures.

All yield the pictures of a ``Track`` in display order, upright, with true times, and raise one ``DecodeError`` after
the last readable picture. No other exception leaves this module. Non-square pixels are not stretched. decord and OpenCV
take the times from the packet list of PyAV, so that all agree.
"""

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import av
import av.logging
import cv2
import numpy as np
from av.container import InputContainer
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.video.formats import MAX_PIXELS, begins_like_video, has_refused_size
from stepscope.engine.video.images import Orientation, to_image
from stepscope.engine.video.packets import (
    MATROSKA,
    DecodeError,
    LimitError,
    ListedPicture,
    PacketList,
    PacketReader,
    is_reordered,
    seconds_of,
)
from stepscope.engine.video.track import EPSILON_S, Track, measure_packets, open_container, reason_of

os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # read when OpenCV first opens a video
av.logging.set_level(None)  # any level makes decoder threads wait for the GIL: closing a half-read file hung
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

_MANY_PIXELS = 2560 * 1600
"""Largest picture to decode with decord, which holds forty, or with all threads of FFmpeg, each of which holds one."""
SEEK_MARGIN_S = 1.0
"""Seconds to seek before the first needed picture: containers index decoding times, which precede display times."""
_THREAD_BYTES = 512 * 2**20
_limits = threading.local()


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


def decode_with_pyav(track: Track) -> Iterator[Picture]:
    """Decode with PyAV in sequence. After a broken packet, continue at the next key picture."""
    failure: DecodeError | None = None
    is_clean = True  # pictures after a broken one depend on it, up to the next key picture
    end_s = 0.0
    waiting: deque[int] = deque()  # ticks of packets without a picture yet; the earliest is that of the next picture
    with open_container(track.path) as container:
        stream, reformatter = open_stream(container, track), VideoReformatter()
        must_reorder = is_reordered(container, stream)
        reader = PacketReader(container, stream, is_first_only=track.has_unreadable_rest, deadline=track.deadline)
        packets = iter(reader)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                if must_reorder and packet.size and packet.pts is not None:
                    waiting.append(packet.pts)
                frames = packet.decode()
            except av.error.FFmpegError as error:
                reason = f"PyAV: {reason_of(error)} after {end_s:.2f} s"
                if has_refused_size(stream.codec_context):
                    limit = f"{MAX_PIXELS / 1e6:.1f} million pixels"
                    failure = LimitError(f"{reason}; a picture is damaged, or has more than {limit}")
                failure = failure or DecodeError(reason)
                is_clean = False
                if waiting:
                    waiting.pop()
                continue
            for frame in frames:
                assert isinstance(frame, VideoFrame)
                is_clean = is_clean or frame.key_frame
                if waiting:
                    frame.pts = waiting.popleft()
                is_before_zero = end_s == 0 and frame.pts is None and track.container == MATROSKA
                if is_clean and not is_before_zero:
                    time_s = end_s if frame.pts is None else seconds_of(frame.pts, stream) - track.zero_s
                    end_s = time_s + (seconds_of(frame.duration, stream) or track.step_s)
                    yield Picture(
                        time_s=time_s,
                        end_s=end_s,
                        is_decoded=True,
                        fetch=partial(make_upright, frame, reformatter, track.orientation),
                    )
    if failure is None and reader.lost_ticks is not None:
        failure = lost_error(reader.lost_ticks, stream, track)
    if failure is not None:
        raise failure


def lost_error(ticks: int, stream: VideoStream, track: Track) -> DecodeError:
    """Return the error of a stream that lacks data from a time on."""
    time_s = seconds_of(ticks, stream) - track.zero_s
    return DecodeError(f"PyAV: data is missing at {time_s:.2f} s; pictures are left out up to the next key picture")


def decode_with_decord(track: Track) -> Iterator[Picture]:
    """List the pictures with decord, and decode in sequence up to the one that is fetched."""
    decord = _import_decord()
    if decord is None:
        raise DecodeError("decord is not installed")
    _check_file(track, "decord")
    if track.width * track.height > _MANY_PIXELS:
        raise DecodeError("decord: holds too many pictures of this size at once")
    if track.width % 2 or track.height % 2:
        raise DecodeError("decord: blurs the colours of odd sizes")
    listed = _list_for_others(track, "decord")
    try:
        reader = decord.VideoReader(_plain_name(track))
        num_pictures, start_s = len(reader), float(reader.get_frame_timestamp(0)[0])
        shape = tuple(reader.next().shape)  # decord calls narrow turned pictures [H, W, 4]
        reader.seek(0)
    except (decord.DECORDError, RuntimeError, IndexError, StopIteration, ValueError, TypeError) as error:
        raise DecodeError(f"decord: {reason_of(error)}") from error
    if shape != (track.height, track.width, 3) or abs(start_s - track.start_s) > track.step_s / 2:
        raise DecodeError("decord: reads a stream of a different shape or start")
    if num_pictures != len(listed.pictures):
        raise DecodeError(f"decord: lists {num_pictures} pictures, not {len(listed.pictures)}")
    sequence = _DecordSequence(reader, decord.DECORDError, track)
    for number, picture in enumerate(listed.pictures):
        fetch = partial(sequence.fetch, number)
        yield Picture(time_s=picture.time_s, end_s=picture.end_s, is_decoded=False, fetch=fetch)


def decode_with_opencv(track: Track) -> Iterator[Picture]:
    """Decode with OpenCV in sequence, converting every picture to an image."""
    _check_file(track, "OpenCV")
    if track.is_interlaced:
        raise DecodeError("OpenCV: does not convert interlaced pictures")  # it gives its empty buffer, without an error
    listed = iter(_list_for_others(track, "OpenCV").pictures)
    before_s = -math.inf
    capture: Any = cv2.VideoCapture(_plain_name(track), cv2.CAP_FFMPEG)
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)  # it ignores mirrors
    try:
        while True:
            is_read, image = capture.read()
            if not is_read:
                return
            upright = track.orientation.apply(image[..., ::-1])
            if upright.shape[:2] != (track.height, track.width):
                raise DecodeError("OpenCV: reads a different stream")
            stored_s = float(capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000 + track.start_s
            picture = next(listed, None)
            if stored_s > before_s:  # else OpenCV has no time for it, as for the last pictures of an MPEG file
                while picture is not None and not _is_stored_at(picture, stored_s):
                    picture = next(listed, None)  # one that OpenCV leaves out, because it is damaged
            before_s = stored_s
            if picture is None:
                raise DecodeError(f"OpenCV: the file lists no picture at {stored_s:.3f} s")
            fetch = partial(np.asarray, upright)
            yield Picture(time_s=picture.time_s, end_s=picture.end_s, is_decoded=True, fetch=fetch)
    except cv2.error as error:
        raise DecodeError(f"OpenCV: {reason_of(error)}") from error
    finally:
        capture.release()


def _list_for_others(track: Track, name: str) -> PacketList:
    """List the pictures of a track for decord or OpenCV. Raises ``DecodeError`` if these give other pictures."""
    if track.is_hdr:
        raise DecodeError(f"{name}: does not convert HDR")
    try:
        listed = measure_packets(track)
    except VideoError as error:
        raise DecodeError(f"{name}: {error}") from error
    if listed.has_hidden:
        raise DecodeError(f"{name}: loses pictures where the times of the file jump back")
    return listed


def _is_stored_at(picture: ListedPicture, stored_s: float) -> bool:
    return picture.stored_s is None or abs(picture.stored_s - stored_s) < EPSILON_S


def _plain_name(track: Track) -> str:
    """Return the path of the file in a form in which a colon in its name selects no protocol, such as ``concat:``."""
    return str(track.path.absolute())


def _check_file(track: Track, decoder: str) -> None:
    """Raise ``DecodeError`` unless a file begins like a video of a known size, and has a name in UTF-8.

    The decoder itself would open a playlist, and pictures of any size; at another name, OpenCV would end the process.
    """
    if track.width * track.height == 0:
        raise DecodeError(f"{decoder}: opens no file whose size of pictures is unknown")
    try:
        _plain_name(track).encode()
    except UnicodeEncodeError as error:
        raise DecodeError(f"{decoder}: opens no file whose name is not UTF-8") from error
    try:
        is_video = begins_like_video(track.path)
    except OSError as error:
        raise DecodeError(f"{decoder}: {reason_of(error)}") from error
    if not is_video:
        raise DecodeError(f"{decoder}: opens no file of this format")


class _DecordSequence:
    """Fetches pictures of a decord reader in rising order, upright.

    Each picture before it is read, because decord seeks and skips to wrong pictures where groups of pictures are open.
    """

    def __init__(self, reader: Any, error_class: type[Exception], track: Track) -> None:
        self._reader, self._error_class, self._track = reader, error_class, track
        self._position = 0

    def fetch(self, number: int) -> np.ndarray:
        """Return the image of a picture that was not fetched before; numbers must rise."""
        try:
            for _ in range(number - self._position):
                self._track.deadline.check()
                self._reader.next()
            image: np.ndarray = self._reader.next().asnumpy()
        except (self._error_class, RuntimeError, StopIteration) as error:
            raise DecodeError(f"decord: {reason_of(error)}") from error
        self._position = number + 1
        orientation = self._track.orientation
        return orientation.apply(orientation.undo_rotation(image))  # decord ignores mirrors


@cache
def _import_decord() -> Any:
    """Import decord when the first video needs it; None if it has no build for this platform, or one that fails."""
    try:
        decord = import_module("decord")
    except (ImportError, OSError):
        return None
    decord.logging.set_level(decord.logging.QUIET)
    return decord


def limit_threads(num_threads: int) -> None:
    """Let each video that this thread opens from now on be decoded by at most ``num_threads`` threads of FFmpeg."""
    _limits.num_threads = num_threads


def open_stream(container: InputContainer, track: Track) -> VideoStream:
    """Return the stream of a track, set up to decode from ``track.begin_s``."""
    stream = container.streams.video[track.stream_index]
    stream.thread_type = "AUTO"
    limits = [getattr(_limits, "num_threads", None)]
    if stream.codec_context.is_hwaccel:
        limits.append(1)  # threads of FFmpeg only wait for the device, each with a picture
    elif track.width * track.height > _MANY_PIXELS:
        limits += [os.cpu_count() or 1, max(1, _THREAD_BYTES // (3 * track.width * track.height))]
    stream.codec_context.thread_count = min(filter(None, limits), default=0)  # 0: FFmpeg chooses
    ticks = _find_seek(track)
    if ticks is not None:
        container.seek(ticks, stream=stream)
    return stream


def make_upright(frame: VideoFrame, reformatter: VideoReformatter, orientation: Orientation) -> np.ndarray:
    """Return the image of a frame as ``to_image`` does. Raises ``DecodeError`` if it has none."""
    try:
        return to_image(frame, reformatter, orientation)
    except (av.error.FFmpegError, ValueError) as error:
        raise DecodeError(f"PyAV: {reason_of(error)}") from error


def _find_seek(track: Track) -> int | None:
    """Return the seek position for ``track.begin_s`` in ticks of the stream; None to decode from the start.

    The seek is tried first, and used only if it lands on a key picture that is not after ``begin_s``, and the file is
    one recording.
    """
    if track.begin_s <= SEEK_MARGIN_S:
        return None
    with open_container(track.path) as container:
        stream = container.streams.video[track.stream_index]
        if stream.time_base is None or is_reordered(container, stream):
            return None
        ticks = int((track.begin_s - SEEK_MARGIN_S + track.zero_s) / stream.time_base)
        try:
            container.seek(ticks, stream=stream)
            packet = next(container.demux(stream), None)
        except av.error.FFmpegError:
            return None  # the file has no index, or the index is damaged
        if packet is None or packet.pts is None or not packet.is_keyframe:
            return None
        if seconds_of(packet.pts, stream) - track.zero_s > track.begin_s:
            return None
    is_one_recording = track.is_indexed or measure_packets(track).num_recordings == 1
    return ticks if is_one_recording else None

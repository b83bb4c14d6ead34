"""The video stream that is read from a file, as its container describes it."""

import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError, first_line
from stepscope.engine.video.boxes import count_entries, find_settings, read_boxes
from stepscope.engine.video.cuts import find_segment_end, has_further_flv, is_complete, is_cut_off
from stepscope.engine.video.formats import (
    FORMATS_RULE,
    MAX_PIXELS,
    OPEN_TIMEOUT_S,
    explain_refused,
    find_formats,
    input_options,
    limit_pixels,
)
from stepscope.engine.video.images import UPRIGHT, Orientation, is_hdr, read_orientation
from stepscope.engine.video.packets import (
    AVI,
    DEFAULT_STEP_S,
    MATROSKA,
    MP4,
    RAW_WITHOUT_RATE,
    Deadline,
    LimitError,
    PacketList,
    demux,
    list_pictures,
    rate_of,
    seconds_of,
    states_rate,
    step_of,
)

_BROWSER_TIMED = frozenset({MP4, MATROSKA})
"""Containers that browsers play; ``video.currentTime`` counts from time 0 of the file, not from the first picture."""
_MAX_DELAY_S = 2.0
"""Delay of the first picture behind the sound that even the shortest video may have, in seconds."""
_MAX_HIDDEN_S = 0.25
"""Time before ``Track.playback_start_s`` that needs no copy, in seconds: encoders delay by some pictures."""
_CLOCK = re.compile(r"(\d{1,6}):(\d\d?):(\d\d?(?:\.\d{1,9})?)(?!\S)", re.ASCII)
"""A duration in Matroska, such as 00:00:05.000000000; one that is not of this form is ignored."""
_LAST_TICK = 2**60
_MAX_ENTRIES = 2**23
"""Pictures and packets of an mp4 file: each takes 36 bytes while it is open. More than a day of 30 pictures/s."""
STORES_DURATION = frozenset({MP4, MATROSKA, AVI})
"""Containers whose header stores the duration of each stream; for the rest, FFmpeg estimates it from the bit rate."""


EPSILON_S = 6e-4
"""Tolerance for rounded times: a picture may start this much after an instant. Matroska rounds to 1 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The instants at which a video is sampled: instant ``i`` is ``start_s + i / fps``."""

    fps: float
    start_s: float = 0.0
    num_frames: float = math.inf

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
    """Time on the file's clock from which times count, in seconds.

    It is 0 where a browser counts from there, as if the picture were late. It is ``start_s`` if browsers do not play
    the file, and if the start exceeds the length of the content: the clock of the recorder was not at 0.
    """
    duration_s: float | None
    """End of the stream according to the header, from ``zero_s``, in seconds; None if missing or clearly too short."""
    fps: float | None
    """Average pictures per second; None if the header has none."""
    width: int
    """Width of the upright picture, in pixels; the height likewise. Pixels may be not square."""
    height: int
    codec: str
    pixel_format: str
    orientation: Orientation = UPRIGHT
    pixel_aspect: float = 1.0
    """Width of an upright pixel divided by its height."""
    is_hdr: bool = False
    is_rate_assumed: bool = False
    """Whether the file states neither times of its pictures nor their rate."""
    is_interlaced: bool = False
    """Whether the first picture consists of two fields."""
    is_indexed: bool = True
    """Whether the header covers the whole file. If not, a further recording may be appended to it."""
    is_cut_off: bool = False
    """Whether the file ends inside its own structure, and its header has no duration to compare with."""
    has_unreadable_rest: bool = False
    """Whether a further recording is appended that FFmpeg does not read, or decodes with the settings of the first."""
    is_browser_playable: bool = False
    """Whether Chromium plays the file, perhaps with another one of its video streams."""
    playback_start_s: float = 0.0
    """Start of the first stream, from ``zero_s``, in seconds: Chromium does not go to an earlier time."""
    playback_s: float = 0.0
    """At least so long Chromium plays, from ``zero_s``, in seconds: also sound, and pictures that an edit list cuts."""
    stop_s: float = math.inf
    """Length of an mp4 that its header states, from ``zero_s``, in seconds: Chromium stops there."""
    begin_s: float = 0.0
    """Time before which no pictures are needed, from ``zero_s``; a decoder may leave them out."""
    sampling: Sampling | None = None
    """Instants whose pictures are needed; None if every picture is. A decoder need not decode the others."""
    deadline: Deadline = field(default_factory=Deadline, compare=False)

    @property
    def step_s(self) -> float:
        """Average time between two pictures, in seconds; 0.04 if unknown."""
        return 1 / self.fps if self.fps else DEFAULT_STEP_S

    @property
    def copy_reason(self) -> str:
        """Why a browser needs a converted copy to show the decoded pictures at their times; empty if it does not."""
        is_mirrored = self.orientation.is_transposed ^ self.orientation.is_flipped_x ^ self.orientation.is_flipped_y
        is_early = self.container == MATROSKA and self.zero_s < 0  # browsers leave the first pictures out
        reasons = {
            "not every browser plays this format": not self.is_browser_playable,
            "browsers show its first video stream, not the best one": self.stream_index > 0,
            f"its clock starts at {self.start_s:g} s": self.zero_s > 0 or is_early,
            f"browsers cannot show it before {self.playback_start_s:.2f} s": self.playback_start_s > _MAX_HIDDEN_S,
            "browsers show HDR colours in different ways": self.is_hdr,
            "not every browser mirrors pictures": is_mirrored,
        }
        return next((reason for reason, applies in reasons.items() if applies), "")

    def lasts_beyond(self, time_s: float) -> bool:
        """Whether the header declares an end after ``time_s`` by more than rounding."""
        return self.duration_s is not None and time_s < self.duration_s - self._rounding_s

    def plays_beyond(self, time_s: float) -> bool:
        """Whether Chromium plays on after ``time_s`` by more than rounding."""
        return time_s < self.playback_s - self._rounding_s

    def stops_before(self, time_s: float) -> bool:
        """Whether Chromium stops before ``time_s`` by more than rounding."""
        return time_s > self.stop_s + self._rounding_s

    @property
    def _rounding_s(self) -> float:
        return max(0.25, 2.5 * self.step_s)


def open_container(path: Path) -> InputContainer:
    """Open a file with PyAV. Raises ``VideoError`` if it is missing, empty or not a media file."""
    if not os.path.exists(path):  # False also for a path that no file can have
        raise VideoError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise VideoError(f"{path}: not a file but a directory or device; give the path of one video")
    try:
        if path.stat().st_size == 0:
            raise VideoError(f"{path}: the file is empty (0 bytes); copy or download it again")
        formats = find_formats(path)
        if MP4 in formats and (number := count_entries(path)) > _MAX_ENTRIES:
            raise VideoError(f"{path}: states {number} pictures and packets, more than {_MAX_ENTRIES}; cut it")
        return open_media(path)
    except av.error.ArgumentError as error:  # FFmpeg's reason for a format that is not among ``FORMATS``
        raise VideoError(f"{path}: {explain_refused(path)}; {FORMATS_RULE}") from error
    except (av.error.FFmpegError, OSError) as error:
        cure = "give an mp4, mov, mkv or webm file, or copy it again if it is one"
        if MP4 in formats and next(read_boxes(path, b"moov"), None) is None:
            cure = "its index (the moov box, written when a recording ends) is missing; give a whole copy, or repair it"
        raise VideoError(f"{path}: cannot be opened as video ({reason_of(error)}); {cure}") from error


def open_media(path: Path, *, hwaccel: HWAccel | None = None) -> InputContainer:
    """Open a file of a format in ``FORMATS`` with PyAV, which raises its own errors; ``hwaccel`` decodes."""
    # "file:" so that a colon in a name does not select a protocol
    container = av.open(
        f"file:{path}",
        metadata_errors="replace",
        options=input_options(formats=find_formats(path)),
        hwaccel=hwaccel,
        timeout=(OPEN_TIMEOUT_S, None),  # a limit for each packet would take the GIL at each read
    )
    limit_pixels(container)
    return container


def find_track(path: Path) -> Track:
    """Describe the video stream to read: FFmpeg's best stream, which decord reads too, if it has a decoder for it.

    Raises ``VideoError`` if the file has no video stream, or, before decoding, if its pictures have more than
    ``MAX_PIXELS``.
    """
    with open_container(path) as container:
        name = container.format.name
        stream, others = container.streams.best("video"), container.streams.video
        if isinstance(stream, VideoStream) and stream.codec_context is None:
            known = (one for one in others if one.codec_context and Disposition.attached_pic not in one.disposition)
            stream = next(known, stream)
        if not isinstance(stream, VideoStream) or Disposition.attached_pic in stream.disposition:
            raise VideoError(f"{path}: has no video stream (its format is {name}); give a video file")
        if stream.codec_context is None:
            raise VideoError(f"{path}: its video is encrypted, or of an unknown codec; convert it to H.264")
        if stream.width * stream.height > MAX_PIXELS:
            raise VideoError(
                f"{path}: its pictures have {stream.width} x {stream.height} pixels, more than the limit of "
                f"{MAX_PIXELS / 1e6:.1f} million; scale it down"
            )
        first = None
        try:
            frames = chain.from_iterable(packet.decode() for packet in demux(container, stream, deadline=Deadline()))
            first = next(frames, None)  # only pictures carry orientation and colours
        except LimitError as error:
            raise VideoError(f"{path}: {error}; convert it to H.264") from error
        except av.error.FFmpegError:
            pass
        orientation = UPRIGHT if first is None else read_orientation(first)
        width, height = (stream.width, stream.height) if first is None else (first.width, first.height)
        if orientation.is_transposed:
            width, height = height, width
        rate = rate_of(stream)
        start_s = seconds_of(stream.start_time, stream)
        end_s = _stored_end(container, stream, start_s=start_s)
        segment_end = find_segment_end(path) if name == MATROSKA else None
        is_indexed = stream.frames > 0 if name == MP4 else segment_end is not None
        if segment_end is not None and end_s is not None:
            last_s = _find_last_end(container, stream)
            end_s = last_s if last_s and is_complete(path, segment_end) else max(end_s, last_s)
        zero_s = 0.0 if name == MP4 else start_s  # an edit list of fragments hides the pictures before 0
        is_cut = is_cut_off(path, name)
        if is_cut and name == AVI and stream.frames and rate:  # FFmpeg's duration is that of the rest
            end_s, is_cut = start_s + float(stream.frames / rate), False
        if start_s > 0 and name in _BROWSER_TIMED:
            zero_s = start_s if _is_clock_late(container, path, stream, start_s=start_s, end_s=end_s) else 0.0
        return Track(
            path=path,
            container=name,
            stream_index=container.streams.video.index(stream),
            start_s=start_s,
            zero_s=zero_s,
            duration_s=None if end_s is None else end_s - zero_s,
            fps=float(rate) if rate else None,
            width=width,
            height=height,
            codec=stream.codec_context.codec.canonical_name,  # "av1" for every AV1 decoder
            pixel_format=stream.codec_context.pix_fmt or "",
            orientation=orientation,
            pixel_aspect=read_pixel_aspect(stream, orientation),
            is_hdr=first is not None and is_hdr(first),
            is_rate_assumed=not states_rate(stream)
            and (name in RAW_WITHOUT_RATE or (first is not None and first.pts is None and name != MATROSKA)),
            is_interlaced=first is not None and bool(first.interlaced_frame),
            is_indexed=is_indexed,
            is_cut_off=is_cut,
            has_unreadable_rest=_has_unreadable_rest(path, name, stream),
            is_browser_playable=_is_browser_playable(path, name, container.streams.video[0]),
            playback_start_s=(container.start_time or 0) / av.time_base - zero_s,
            playback_s=_playback_end(container, stream) - zero_s,
            stop_s=(container.duration or 0) / av.time_base - zero_s if name == MP4 and stream.frames else math.inf,
        )


def measure_packets(track: Track) -> PacketList:
    """List the pictures of a track without decoding; their times count from ``track.zero_s``.

    Raises ``VideoError`` if not even the first packet can be read.
    """
    with open_container(track.path) as container:
        try:
            stream = container.streams.video[track.stream_index]
            listed = list_pictures(container, stream, is_first_only=track.has_unreadable_rest)
        except av.error.FFmpegError as error:
            raise VideoError(f"{track.path}: no picture can be read ({reason_of(error)}); copy it again") from error
    return listed.count_from(track.zero_s)


def _is_clock_late(
    container: InputContainer, path: Path, stream: VideoStream, *, start_s: float, end_s: float | None
) -> bool:
    """Return whether a late start is that of the recorder's clock rather than a delay of the first picture."""
    if start_s <= _MAX_DELAY_S:
        return False
    lengths_s = [(_measure_end(path, stream.index) if end_s is None else end_s) - start_s]
    for sound in container.streams.audio:
        ends_s = _tagged_end(sound) or 0.0
        lengths_s.append(seconds_of(sound.duration, sound) or ends_s - seconds_of(sound.start_time, sound))
    return start_s > max(lengths_s)


def _measure_end(path: Path, stream_index: int) -> float:
    """Return the end of the last picture on the file's clock, in seconds; 0 if no packet can be read."""
    with open_container(path) as container, suppress(av.error.FFmpegError):
        stream = container.streams[stream_index]
        assert isinstance(stream, VideoStream)
        return list_pictures(container, stream).end_s
    return 0.0


def _find_last_end(container: InputContainer, stream: VideoStream) -> float:
    """Return the end of the pictures from the last key picture on, on the file's clock in seconds; 0 without any.

    Recorders that were stopped, and tools that cut or repair a file, store durations that are too short or too long.
    """
    end_s = 0.0
    with suppress(av.error.FFmpegError):
        container.seek(_LAST_TICK, stream=stream)
        for packet in container.demux(stream):
            if packet.pts is not None:
                end_s = max(
                    end_s, seconds_of(packet.pts, stream) + (seconds_of(packet.duration, stream) or step_of(stream))
                )
    return end_s


def _has_unreadable_rest(path: Path, container: str, stream: VideoStream) -> bool:
    """Return whether a further mp4 or FLV file is appended whose pictures FFmpeg skips or decodes wrongly.

    Of mp4, FFmpeg knows the tables and the settings of the first file alone; fragments need only the settings.
    """
    if container == "flv":
        return has_further_flv(path)
    if container != MP4:
        return False
    settings = [find_settings(header) for header in read_boxes(path, b"moov")]
    return any(stream.frames or other != settings[0] for other in settings[1:])


def _is_browser_playable(path: Path, container: str, stream: VideoStream) -> bool:
    """Return whether Chromium plays a file whose first video stream is ``stream``."""
    is_webm = path.suffix.lower() == ".webm"
    if not (is_webm or container == MP4):
        return False
    codec = stream.codec_context.codec.canonical_name if stream.codec_context else ""
    if codec == "h264":
        return not is_webm and stream.codec_context.pix_fmt in ("yuv420p", "yuvj420p")
    return codec in ("vp8", "vp9", "av1")


def _playback_end(container: InputContainer, stream: VideoStream) -> float:
    """Return the time up to which Chromium plays at least, on the file's clock in seconds."""
    num_entries = len(stream.index_entries)
    last = stream.index_entries[num_entries - 1] if num_entries else None
    cut_s = seconds_of(last.timestamp, stream) if last is not None and last.is_discard else 0.0
    return max((container.duration or 0) / av.time_base, cut_s)


def read_pixel_aspect(stream: VideoStream, orientation: Orientation) -> float:
    """Return the width of an upright pixel divided by its height; 1 if it is unknown or cannot be true."""
    aspect = float(stream.sample_aspect_ratio or 1)
    if not 0.1 <= aspect <= 10:
        return 1.0
    return 1 / aspect if orientation.is_transposed else aspect


def _stored_end(container: InputContainer, stream: VideoStream, *, start_s: float) -> float | None:
    """Return the end of the stream on the file's clock according to its header, in seconds.

    Returns None if the header stores none, or one that does not fit its number of pictures. For example, 300 pictures
    at 30 fps need 10 s; a stored duration of 4 s is not trusted.
    """
    if container.format.name not in STORES_DURATION:
        return None
    if stream.duration:
        duration_s = seconds_of(stream.duration, stream)
        if container.format.name == MP4 and not stream.frames:
            return duration_s + min(0.0, start_s)  # of fragments FFmpeg's length includes the delay
        entries = stream.index_entries
        if container.format.name == MP4 and len(entries) > stream.frames:
            return None  # FFmpeg's length leaves out what an edit list repeats, and includes a cut first fragment
        if container.format.name == MP4 and start_s > 0:
            num_shown = sum(not entry.is_discard for entry in entries)
            if num_shown < stream.frames:  # an edit list delays and cuts the stream: FFmpeg's length includes the delay
                return None
        needed_s = float(stream.frames / stream.average_rate) if stream.average_rate else 0.0
        is_too_short = needed_s > duration_s + max(0.25, 2.5 * needed_s / max(1, stream.frames))
        return None if is_too_short else start_s + duration_s  # the stored value excludes the delay
    if (tagged_s := _tagged_end(stream)) is not None:
        return tagged_s
    if container.duration and len(container.streams) == 1:
        return container.duration / av.time_base
    return None


def _tagged_end(stream: Stream) -> float | None:
    """Return the end of a stream on the file's clock that Matroska stores as a tag, in seconds."""
    if (stored := _CLOCK.match(stream.metadata.get("DURATION", ""))) is None:
        return None
    hours, minutes, seconds = map(float, stored.groups())
    return hours * 3600 + minutes * 60 + seconds


def reason_of(error: BaseException) -> str:
    """Return one short line from a library's error; decord's messages are long traces."""
    return str(getattr(error, "strerror", None) or first_line(error)).rsplit("] ", maxsplit=1)[-1][:160]

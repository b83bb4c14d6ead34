"""The packets of a video stream on one clock that never jumps.

A recorder that starts again in the same file, and recordings that are appended to one file, restart their times.
Their pictures follow the end of the pictures before: two recordings of 10 s last 20 s.
"""

import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from time import monotonic
from typing import Any, Final, TypeVar

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError
from av.format import Flags
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError

MP4: Final = "mov,mp4,m4a,3gp,3g2,mj2"
MATROSKA: Final = "matroska,webm"
"""FFmpeg's name of the container, in which it gives no time to pictures of H.264 before time 0."""
AVI: Final = "avi"
"""FFmpeg's name of the container that stores one chunk per tick in decoding order, and no times of display."""
RAW_WITHOUT_RATE: Final = ("mjpeg", "obu", "av1")
"""FFmpeg's names of raw streams to which it gives the times of 25 pictures per second."""
DEFAULT_STEP_S: Final = 0.04
"""Time between two pictures of a file that does not state its rate, in seconds."""
_ROUNDING_S: Final = 2.5e-3
"""Difference of times that are rounded to milliseconds, as in Matroska, in seconds."""
_MAX_GAP_S: Final = 10.0
"""Longest gap in the times of MPEG-TS and MPEG-PS, in seconds; a longer one is another recording, as for FFmpeg.

**Source**: FFmpeg's documentation of ``-dts_delta_threshold``.
"""


MAX_SCANS: Final = 100
"""Maximum number of scans of a JPEG picture, each of which takes the time of a picture; encoders write about 10."""
_JPEG_CODECS: Final = frozenset({"mjpeg", "amv", "smvjpeg", "thp"})


def count_scans(content: bytes) -> int:
    """Return the number of scans of a JPEG picture, with those of its thumbnail. **Source**: ITU-T T.81, B.2.3."""
    return content.count(b"\xff\xda")


MAX_DECODING_S: Final = 60.0
"""Maximum decoding time between two returned pictures, in seconds; the play time of skipped pictures is added."""


_MAX_STEP_S: Final = 5.0
S = TypeVar("S", VideoStream, AudioStream)


class DecodeError(VideoError):
    """A decoder cannot continue; the next one may."""


class LimitError(DecodeError):
    """A picture takes too long, or is perhaps too large; no other decoder is tried, as these have no such limits."""


is_wanted: Final[ContextVar[Callable[[], bool]]] = ContextVar("is_wanted", default=lambda: True)
"""Returns whether the client that needs the pictures is still connected."""


class Deadline:
    """The time that is left to decode the next picture of a file. Decoders look at it between two packets.

    Between two looks at most ``_MAX_STEP_S`` passes: a program that was stopped, or slept, has decoded nothing.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self, play_s: float = 0.0) -> None:
        """Allow as much time as at first, and ``play_s`` seconds more."""
        self._left_s, self._last_s = MAX_DECODING_S + play_s, monotonic()

    def extend(self, play_s: float) -> None:
        """Allow ``play_s`` seconds more, for which a picture plays that is not returned."""
        self._left_s += play_s

    def check(self) -> None:
        """Raise ``LimitError`` if no time is left, and ``VideoError`` once the client has left."""
        if not is_wanted.get()():
            raise VideoError("decoding was cancelled, because its client left")
        now_s = monotonic()
        self._left_s -= min(now_s - self._last_s, _MAX_STEP_S)
        self._last_s = now_s
        if self._left_s < 0:
            raise LimitError(f"the next picture takes more than {MAX_DECODING_S:g} s to decode")


def demux(container: InputContainer, stream: S, *, deadline: Deadline | None = None) -> "Iterator[Packet[S]]":
    """Read the packets of a stream. Raises ``VideoError`` at a JPEG picture that would take hours.

    Raises ``LimitError`` at a packet after ``deadline``.
    """
    is_jpeg = stream.codec_context is not None and stream.codec_context.name in _JPEG_CODECS
    for packet in container.demux(stream):
        if deadline is not None:
            deadline.check()
        if is_jpeg and count_scans(bytes(packet)) > MAX_SCANS:
            path = container.name.removeprefix("file:")
            raise VideoError(f"{path}: a picture in JPEG has more than {MAX_SCANS} scans; convert the video to H.264")
        yield packet


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPicture:
    """One picture of the packet list; times in seconds on the clock of ``read_packets``."""

    stored_s: float | None
    """Time as the file stores it; None if it stores none."""
    time_s: float
    end_s: float
    """Start of the next picture; of the last one, its own end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketList:
    """The pictures of a stream in display order."""

    pictures: tuple[ListedPicture, ...]
    num_recordings: int
    """1 plus the number of times at which the stored times jump."""
    has_hidden: bool
    """Whether FFmpeg discards pictures of a later recording, as it does in fragmented mp4."""

    @property
    def end_s(self) -> float:
        """End of the last picture; 0 without pictures."""
        return self.pictures[-1].end_s if self.pictures else 0.0

    @property
    def is_even(self) -> bool:
        """Whether all pictures are displayed for about the same time."""
        steps_s = [after.time_s - before.time_s for before, after in pairwise(self.pictures)]
        return not steps_s or max(steps_s) - min(steps_s) < _ROUNDING_S

    @property
    def average_fps(self) -> float:
        """Pictures per second from the first picture to the end of the last; 0 without pictures."""
        length_s = self.end_s - self.pictures[0].time_s if self.pictures else 0.0
        return len(self.pictures) / length_s if length_s > 0 else 0.0

    def count_from(self, zero_s: float) -> "PacketList":
        """Return the list with times that count from ``zero_s``."""
        pictures = (
            replace(picture, time_s=picture.time_s - zero_s, end_s=picture.end_s - zero_s) for picture in self.pictures
        )
        return replace(self, pictures=tuple(pictures)) if zero_s else self


class PacketReader:
    """Iterates once over the packets of a stream, the last of which is empty, on one clock.

    A recording begins with a key picture that is earlier than pictures before it, or too late to belong to them. If
    the next packet follows those again, the key picture alone had a wrong time.

    Pictures that lack data, as a transport stream does after bad reception, are left out up to the next key picture.
    """

    def __init__(
        self,
        container: InputContainer,
        stream: VideoStream,
        *,
        is_first_only: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        """``is_first_only`` ends with the first recording; ``deadline`` is that of ``demux``."""
        self._container, self._stream, self._is_first_only = container, stream, is_first_only
        self._deadline = deadline
        self._step = max(1, _ticks_of(step_of(stream), stream))
        can_jump = Flags.ts_discont in Flags(container.format.flags)
        self._max_gap = _ticks_of(_MAX_GAP_S, stream) if can_jump else math.inf
        self._is_avi = container.format.name == AVI
        self._is_indexed = container.format.name == MP4 and stream.frames > 0  # only edit lists make its times jump
        self.num_recordings = 1
        self.has_hidden = False
        self.shift = 0
        """Ticks that were added to the times of the latest packet."""
        self.lost_ticks: int | None = None
        """Time of the first picture that lacks data; None if none does."""
        self._states_rate = states_rate(stream)

    def __iter__(self) -> "Iterator[Packet[VideoStream]]":
        newest = resumed = None  # stored times: of the latest picture, before a jump
        decoded = end = former_shift = 0  # the first is the stored time in decoding order
        for packet in self._read_whole():
            if not self._states_rate and packet.pts is None and packet.dts is None and packet.size:
                packet.duration = self._step  # FFmpeg's is 1 tick
            if self._is_avi and packet.dts is not None:
                packet.pts = packet.dts  # FFmpeg's guess is a picture late, and wrong with B-frames
            if packet.size and packet.pts is not None and not self._is_indexed:
                order = packet.pts if packet.dts is None else packet.dts
                if resumed is not None and resumed <= order and not resumed < decoded <= order:
                    self.shift, self.num_recordings = former_shift, self.num_recordings - 1
                resumed = None
                is_back = newest is not None and packet.pts < newest and order < decoded
                is_ahead = newest is not None and order > decoded + self._max_gap
                if packet.is_keyframe and (is_back or is_ahead):
                    if self._is_first_only:
                        break
                    former_shift, self.shift, resumed = self.shift, end - packet.pts, decoded
                    self.num_recordings, newest = self.num_recordings + 1, None
                newest = packet.pts if newest is None else max(newest, packet.pts)
                decoded = order
                if self.shift:
                    packet = self._move(packet)
                assert packet.pts is not None
                end = max(end, packet.pts + (packet.duration or self._step))
            yield packet
        else:
            return
        last: Any = Packet()
        last.stream = self._stream
        yield last

    def _read_whole(self) -> "Iterator[Packet[VideoStream]]":
        """Read the packets that lack no data.

        FFmpeg marks the packet before the one that lacks data. It also marks where two transport streams meet: there,
        a key picture follows the suspect, which is then whole, or was the last that needs it.
        """
        suspect: Packet[VideoStream] | None = None
        entry: int | None = None  # time of the key picture after missing ones, to which its leading pictures refer
        is_marked = is_broken = False
        for packet in self._check_times(demux(self._container, self._stream, deadline=self._deadline)):
            if suspect is not None and not packet.is_keyframe and packet.size:
                is_broken = True
                if self.lost_ticks is None and suspect.pts is not None:
                    self.lost_ticks = suspect.pts + self.shift
            elif suspect is not None:
                yield suspect
            if packet.is_keyframe:
                entry = packet.pts if is_broken else None
            is_broken = is_broken and not packet.is_keyframe and packet.size > 0
            is_leading = entry is not None and packet.pts is not None and packet.pts < entry
            suspect = packet if is_marked and not is_broken and packet.size else None
            is_marked = packet.is_corrupt
            if suspect is None and not is_broken and not is_leading:
                yield packet
        if suspect is not None:
            yield suspect

    def _check_times(self, packets: "Iterator[Packet[VideoStream]]") -> "Iterator[Packet[VideoStream]]":
        """Yield packets. Raises ``VideoError`` if they have one time, of which FFmpeg makes one length in an mp4."""
        times = list[int]()
        for packet in packets:
            is_last = packet.size == 0
            if not is_last and packet.pts is not None:
                times.append(packet.pts)
            is_whole = self._is_indexed and 0 < (self._stream.duration or 0) <= (packet.duration or 0)
            if len(times) == _NUM_COUNTED or (is_last and len(times) > 2) or is_whole:
                length_s = seconds_of(max(times, default=0) - min(times, default=0), self._stream)
                if (is_whole and self._stream.frames > 2) or length_s < (len(times) - 1) / _MAX_FPS:
                    raise VideoError(
                        f"{self._container.name.removeprefix('file:')}: has more than {_MAX_FPS} pictures per "
                        "second, as if it stated no times; give them times: ffmpeg -r 30 -i IN OUT.mp4"
                    )
                times.clear()
            yield packet

    def _move(self, packet: "Packet[VideoStream]") -> "Packet[VideoStream]":
        """Add ``shift`` to the times of a packet. FFmpeg marks fragments whose times jump back to be discarded."""
        if packet.is_discard:
            self.has_hidden = True
            shown: Any = Packet(bytes(packet))
            shown.stream, shown.time_base, shown.is_keyframe = packet.stream, packet.time_base, packet.is_keyframe
            shown.pts, shown.dts, shown.duration = packet.pts, packet.dts, packet.duration
            packet = shown
        assert packet.pts is not None
        packet.pts += self.shift
        if packet.dts is not None:
            packet.dts += self.shift
        return packet


MAX_PICTURES: Final = 2**21
"""Maximum number of pictures of a file, as in a day at 24 per second; a listed one takes 0.2 kB of memory."""
_MAX_FPS: Final = 1000
_NUM_COUNTED: Final = 64
"""Successive pictures of which at most ``_MAX_FPS`` per second are read."""


def list_pictures(container: InputContainer, stream: VideoStream, *, is_first_only: bool = False) -> PacketList:
    """List the pictures of a stream from its packets, one per picture, without decoding.

    A broken file is listed up to the damage. Raises PyAV's ``FFmpegError`` if not even the first packet can be read,
    and ``VideoError`` if there are too many pictures.
    """
    reader = PacketReader(container, stream, is_first_only=is_first_only)
    step_s = step_of(stream)
    found: list[ListedPicture] = []
    end_s = 0.0
    try:
        for packet in reader:
            if packet.size == 0 or packet.is_discard:  # the end of the stream, or cut by an edit list
                continue
            if not found and packet.pts is None and container.format.name == MATROSKA:  # before time 0
                continue
            stored_s = None if packet.pts is None else seconds_of(packet.pts - reader.shift, stream)
            time_s = end_s if packet.pts is None else seconds_of(packet.pts, stream)
            end_s = time_s + (seconds_of(packet.duration, stream) or step_s)
            found.append(ListedPicture(stored_s=stored_s, time_s=time_s, end_s=end_s))
            if len(found) > MAX_PICTURES:
                name = container.name.removeprefix("file:")
                raise VideoError(f"{name}: has more than {MAX_PICTURES} pictures; cut or convert it")
    except FFmpegError:
        if not found:
            raise
    found.sort(key=lambda picture: picture.time_s)
    shown = [replace(first, end_s=second.time_s) for first, second in pairwise(found)]
    return PacketList(
        pictures=(*shown, *found[-1:]), num_recordings=reader.num_recordings, has_hidden=reader.has_hidden
    )


def is_reordered(container: InputContainer, stream: VideoStream) -> bool:
    """Return whether the times of packets are not those of their own pictures: AVI with B-frames."""
    return container.format.name == AVI and bool(stream.codec_context.has_b_frames)


def step_of(stream: VideoStream) -> float:
    """Return the average time between two pictures, in seconds."""
    rate = rate_of(stream)
    return float(1 / rate) if rate else DEFAULT_STEP_S


def rate_of(stream: VideoStream) -> Fraction | None:
    """Return the average number of pictures per second that the header gives; None if it gives none.

    FFmpeg's guess fits the first times. An average of more than twice the guess cannot be true: Matroska
    files without a default duration are given one of 1,000 or 30,000. Up to twice, few pictures explain it: two that
    are 10 s apart are 0.1 per second by the guess, and 0.2 on average. More than ``_MAX_FPS`` are ticks, not pictures.
    """
    average, guess = stream.average_rate, stream.guessed_rate
    rate = guess if average is None or (guess and average > 2 * guess) else average
    return None if rate is None or rate > _MAX_FPS else rate


def states_rate(stream: VideoStream) -> bool:
    """Return whether the pictures themselves state a rate, as most streams of H.264, HEVC and MPEG do."""
    rate = stream.codec_context.framerate
    return rate is not None and 0 < rate <= _MAX_FPS


def seconds_of(ticks: int | None, stream: Stream) -> float:
    """Convert a time of a stream from ticks to seconds; 0 if the time or the time base is missing."""
    if ticks is None or (time_base := stream.time_base) is None:
        return 0.0
    return ticks * time_base.numerator / time_base.denominator  # rounded once, as a Fraction is, and 5 times faster


def _ticks_of(time_s: float, stream: VideoStream) -> int:
    return round(time_s / stream.time_base) if stream.time_base else 0

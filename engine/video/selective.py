"""Decodes the pictures that a sampling needs, and of the others only those that they depend on.

The packets of a group of pictures (GOP), from a key picture up to the next, are read before any is decoded. Those
behind its last needed picture are dropped, which skips to the next key picture without a seek. Of the rest, the decoder
skips pictures that no other picture refers to. So the needed pictures are those of a decoder that decodes everything
(``tests/engine/video/test_selective.py``).

A group ends only where no later picture refers back: at every key picture, but in H.264 at IDR pictures alone, since
others may be followed by pictures that refer back. Leading pictures, which are displayed before the key picture of
their group, refer to the group before: that is decoded whole if one of them is needed.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Final, NoReturn

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from stepscope.engine.video.decoders import Picture, lost_error, make_upright, open_stream
from stepscope.engine.video.hardware import open_on_device, to_software_format
from stepscope.engine.video.packets import DecodeError, PacketReader, is_reordered, seconds_of
from stepscope.engine.video.track import Sampling, Track, open_container, reason_of

MAX_PACKETS: Final = 1500
MAX_BYTES: Final = 16 * 2**20
"""Largest group in memory; the next decoder reads a video with longer ones."""
_SKIPS_NON_REFERENCE: Final = frozenset({"h264", "mpeg1video", "mpeg2video", "mpeg4"})
"""Codecs of which FFmpeg skips exactly the pictures that no other refers to, unlike in HEVC, which has layers."""
_IDR_SLICE: Final = 5
"""Type of the NAL units of an IDR picture. **Source**: ITU-T H.264, table 7-1."""


@dataclass(slots=True, eq=False)
class _Gop:
    """Packets in decoding order, the first of which holds a key picture."""

    packets: "list[Packet[VideoStream]]" = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    """Presentation times of the packets."""
    num_bytes: int = 0

    def add(self, packet: "Packet[VideoStream]", *, is_ordered: bool) -> None:
        """Append a packet. Raises ``DecodeError`` if it has no time or a wrong one, or the group is too large."""
        if packet.pts is None or (is_ordered and self.ticks and packet.pts < self.ticks[-1]):
            raise DecodeError("PyAV: a packet has no presentation time, or a wrong one")
        self.packets.append(packet)
        self.ticks.append(packet.pts)
        self.num_bytes += packet.size
        if len(self.packets) > MAX_PACKETS or self.num_bytes > MAX_BYTES:
            raise DecodeError("PyAV: the key pictures are too far apart")

    def pictures(self, *, is_leading: bool) -> "list[Packet[VideoStream]]":
        """Return the displayed packets, those before the key picture or all others, in display order."""
        shown = [
            (ticks, packet)
            for ticks, packet in zip(self.ticks, self.packets, strict=True)
            if (ticks < self.ticks[0]) == is_leading and not packet.is_discard
        ]
        return [packet for _, packet in sorted(shown, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A picture that was not yet yielded; times in seconds."""

    ticks: int
    time_s: float
    end_s: float
    is_needed: bool


def decode_sampled(track: Track, *, device: str = "cpu") -> Iterator[Picture]:
    """List the pictures of a track and decode those that ``track.sampling`` needs; ``fetch`` fails for the others.

    ``device`` decodes: ``cpu``, or one of ``engine.video.hardware``. The pictures are the same ones.
    """
    assert track.sampling is not None
    is_on_device = device != "cpu"
    with open_on_device(track, device) if is_on_device else open_container(track.path) as container:
        stream = open_stream(container, track)
        decoder = _SampledDecoder(track, track.sampling, stream, is_on_device=is_on_device)
        try:
            for gop, following in pairwise(chain(_read_gops(container, stream, track), [None])):
                assert gop is not None
                yield from decoder.decode(gop, following)
            yield from decoder.flush()
        except av.error.FFmpegError as error:
            raise DecodeError(f"PyAV: {reason_of(error)}") from error


def _read_gops(container: InputContainer, stream: VideoStream, track: Track) -> Iterator[_Gop]:
    """Read the packets of each group."""
    context, gop = stream.codec_context, _Gop()
    if is_reordered(container, stream):
        raise DecodeError("PyAV: AVI does not store the times of B-frames")
    extradata, needs_idr = context.extradata or b"", context.codec.canonical_name == "h264"
    reader = PacketReader(container, stream, is_first_only=track.has_unreadable_rest, deadline=track.deadline)
    for packet in reader:
        if packet.size == 0:  # the end of the stream
            continue
        if packet.is_keyframe and (not needs_idr or _is_idr(bytes(packet), extradata)):
            if gop.packets:
                yield gop
            gop = _Gop()
        elif not gop.packets:
            raise DecodeError("PyAV: the stream does not begin with a key picture")
        gop.add(packet, is_ordered=not context.has_b_frames)
    if gop.packets:
        yield gop
    if reader.lost_ticks is not None:
        raise lost_error(reader.lost_ticks, stream, track)


def _is_idr(packet: bytes, extradata: bytes) -> bool:
    """Return whether an H.264 packet holds an IDR picture. **Source**: ITU-T H.264, annex B; ISO/IEC 14496-15, 5.3."""
    if extradata[:1] != b"\x01" or len(extradata) < 5:  # NAL units follow start codes
        return any(
            packet[match.end()] & 31 == _IDR_SLICE for match in re.finditer(rb"\x00\x00\x01(?=.)", packet, re.DOTALL)
        )
    size, at = (extradata[4] & 3) + 1, 0  # each NAL unit follows its length
    while at + size < len(packet):
        if packet[at + size] & 31 == _IDR_SLICE:
            return True
        at += size + int.from_bytes(packet[at : at + size], "big")
    return False


class _SampledDecoder:
    """Decodes groups as far as they are needed, and yields all their pictures in display order."""

    def __init__(self, track: Track, sampling: Sampling, stream: VideoStream, *, is_on_device: bool) -> None:
        self._track, self._sampling, self._stream = track, sampling, stream
        self._downloader = VideoReformatter() if is_on_device else None
        self._context, self._reformatter = stream.codec_context, VideoReformatter()
        self._can_skip = self._context.codec.canonical_name in _SKIPS_NON_REFERENCE
        self._index = 0
        """The first instant that no listed picture covers."""
        self._listed: deque[_Listed] = deque()
        self._needed: set[int] = set()
        """Ticks of the needed pictures in ``_listed``."""
        self._frames: dict[int, VideoFrame] = {}
        """The decoded of these, by ticks."""
        self._entries: set[int] = set()
        """Ticks of the key pictures before which packets were dropped."""

    def decode(self, gop: _Gop, following: _Gop | None) -> Iterator[Picture]:
        """Decode a group, and yield the pictures that are complete; ``following`` is None at the end."""
        if self._index == 0 and self._track.begin_s == 0 and gop.pictures(is_leading=True):
            raise DecodeError("PyAV: the file begins with pictures that refer to missing ones")
        own = gop.pictures(is_leading=False)
        leading = [] if following is None else following.pictures(is_leading=True)
        after = [] if following is None else following.pictures(is_leading=False)  # none if an edit list cuts them
        self._list([*own, *leading], end=after[0].pts if after else None)
        num_packets = len(gop.packets)
        if not any(packet.pts in self._needed for packet in leading):
            positions = (number for number, ticks in enumerate(gop.ticks, start=1) if ticks in self._needed)
            num_packets = max(positions, default=0)
        for packet in gop.packets[:num_packets]:
            if self._can_skip:
                self._context.skip_frame = "DEFAULT" if packet.pts in self._needed else "NONREF"
            self._track.deadline.check()
            self._receive(self._context.decode(packet))
            yield from self._take_complete()
        if num_packets < len(gop.packets) and following is not None:
            self._entries.add(following.ticks[0])

    def flush(self) -> Iterator[Picture]:
        """Yield the pictures that the decoder still holds. Raises ``DecodeError`` if a needed one is missing."""
        self._receive(self._context.decode(None))
        yield from self._take_complete()
        if self._listed:
            raise _missing_error(self._listed[0].time_s)

    def _list(self, packets: "list[Packet[VideoStream]]", *, end: int | None) -> None:
        """List pictures in display order; ``end`` is the end of the last one, in ticks. Mark those that are needed."""
        if not packets:
            return
        times = [self._seconds(packet.pts) for packet in packets]
        last_s = times[-1] + (seconds_of(packets[-1].duration, self._stream) or self._track.step_s)
        times.append(last_s if end is None else self._seconds(end))
        if any(following <= time_s for time_s, following in pairwise(times)):
            raise DecodeError("PyAV: the times of the pictures overlap")
        for packet, (time_s, end_s) in zip(packets, pairwise(times), strict=True):
            assert packet.pts is not None
            is_needed = self._sampling.is_due(self._index, end_s)
            while self._sampling.is_due(self._index, end_s):
                self._index += 1
            self._listed.append(_Listed(ticks=packet.pts, time_s=time_s, end_s=end_s, is_needed=is_needed))
            if is_needed:
                self._needed.add(packet.pts)

    def _receive(self, frames: Iterable[VideoFrame]) -> None:
        """Keep the needed frames. Raises ``DecodeError`` if one is missing, damaged, or not a key picture as listed."""
        for frame in frames:
            ticks = frame.pts
            if ticks is None or (ticks in self._entries and not frame.key_frame):
                raise DecodeError("PyAV: a key picture is not where the file lists it")
            self._entries.discard(ticks)
            if ticks in self._needed:
                if frame.is_corrupt:
                    raise DecodeError(f"PyAV: the picture at {self._seconds(ticks):.2f} s is damaged")
                if self._downloader is not None:
                    frame = to_software_format(frame, self._track, self._downloader)
                self._frames[ticks] = frame
            elif self._listed and ticks > self._listed[0].ticks and self._listed[0].ticks not in self._frames:
                raise _missing_error(self._listed[0].time_s)

    def _take_complete(self) -> Iterator[Picture]:
        while self._listed and (not self._listed[0].is_needed or self._listed[0].ticks in self._frames):
            listed = self._listed.popleft()
            fetch: Callable[[], np.ndarray] = partial(_refuse, listed.time_s)
            if listed.is_needed:
                self._needed.discard(listed.ticks)
                fetch = partial(
                    make_upright, self._frames.pop(listed.ticks), self._reformatter, self._track.orientation
                )
            yield Picture(time_s=listed.time_s, end_s=listed.end_s, is_decoded=False, fetch=fetch)

    def _seconds(self, ticks: int | None) -> float:
        return seconds_of(ticks, self._stream) - self._track.zero_s


def _refuse(time_s: float) -> NoReturn:
    raise _missing_error(time_s)


def _missing_error(time_s: float) -> DecodeError:
    return DecodeError(f"PyAV: the picture at {time_s:.2f} s was not decoded")

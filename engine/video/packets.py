"""Counts the packets of a video without decoding them, for files whose header stores no duration."""

from dataclasses import dataclass

import av
from av.video.stream import VideoStream

from engine.errors import VideoError
from engine.video.track import Track, open_container, reason_of, seconds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSpan:
    """The number of packets of a track, and their duration."""

    num_packets: int
    """Packets of the stream, one per picture."""
    duration_s: float
    """End of the last packet from ``Track.zero_s``, in seconds."""


def measure_packets(track: Track) -> PacketSpan:
    """Count the packets of a track and measure their duration, without decoding.

    Raises ``VideoError`` if not even the first packet can be read.
    """
    num_packets, end_s = 0, 0.0
    with open_container(track.path) as container:
        stream = container.streams[track.stream_index]
        assert isinstance(stream, VideoStream)
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
    return PacketSpan(num_packets=num_packets, duration_s=end_s)

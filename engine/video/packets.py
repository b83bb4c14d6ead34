"""Counts the packets of a video without decoding them: for files whose header does not say how long they last."""

from dataclasses import dataclass

import av
from av.video.stream import VideoStream

from engine.errors import VideoError
from engine.video.decoders import Track, open_container, reason_of, seconds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSpan:
    """How many packets a track has, and how long they last."""

    num_packets: int
    """Packets of the stream, one a picture."""
    duration_s: float
    """End of the last one from ``Track.zero_s``, in seconds."""


def measure_packets(track: Track) -> PacketSpan:
    """Count the packets of a track and how long they last, without decoding: for files whose header is silent."""
    num_packets, end_s = 0, 0.0
    with open_container(track.path) as container:
        stream = container.streams[track.stream_index]
        assert isinstance(stream, VideoStream)
        try:
            for packet in container.demux(stream):
                if packet.size == 0 or packet.is_discard:  # the one that ends the stream; what an edit list leaves out
                    continue
                num_packets += 1
                begin_s = end_s if packet.pts is None else seconds_of(packet.pts, stream) - track.zero_s
                end_s = max(end_s, begin_s + (seconds_of(packet.duration, stream) or track.step_s))
        except av.error.FFmpegError as error:
            if num_packets == 0:
                raise VideoError(f"{track.path}: no picture can be read ({reason_of(error)}); copy it again") from error
    return PacketSpan(num_packets=num_packets, duration_s=end_s)

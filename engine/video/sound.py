"""The sound of a video, on the clock of its pictures: for copies that a browser plays, and as a waveform.

Only the first sound of a file counts, as browsers play it. Packets that cannot be decoded are silent, and what
follows the video's ``deadline``, or sound that no program records.
"""

from collections.abc import Generator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from stepscope.engine.video.packets import LimitError, demux, seconds_of
from stepscope.engine.video.track import Track, find_track, open_container

RATE: Final = 44_100
"""Samples per second of a copy."""
_JITTER_S: Final = 0.01
"""Distance of a frame of sound from the end of the one before that is no gap."""
_PEAK_RATE: Final = 8_000
"""Samples per second from which peaks are measured."""
_LEAST_RATE: Final = 1_000
_GREATEST_RATE: Final = 768_000
_MAX_CHANNELS: Final = 64
_MAX_FRAME_S: Final = 10.0
_MAX_PACKET_BYTES: Final = 2**20
"""Bounds of sound that is decoded: resampled, a packet of 12 kB at 1 Hz would take 3 GB."""
PEAKS_PER_S: Final = 50
MAX_PEAKS: Final = 60_000
"""Greatest number of peaks of a video; a longer one than 20 minutes has fewer a second."""


def read_sound(
    track: Track, *, start_s: float = 0.0, rate: int = RATE, layout: str = "stereo"
) -> Generator[AudioFrame]:
    """Yield the sound of a video from ``start_s`` on, in order, as frames of floats; none without sound.

    ``frame.time`` is in seconds after ``start_s``, on the clock of the pictures. Sound before it, and sound whose clock
    jumps back, is left out.
    """
    with open_container(track.path) as container:
        stream = next(iter(container.streams.audio), None)
        if stream is None:
            return
        former, next_s, at = None, 0.0, 0
        with suppress(av.error.FFmpegError, LimitError):
            for packet in demux(container, stream, deadline=track.deadline):
                for frame in _decode_whole(packet):
                    time_s = seconds_of(frame.pts, stream) - track.zero_s - start_s
                    if frame.pts is None or time_s < next_s - _JITTER_S:
                        continue
                    if time_s > next_s + _JITTER_S:  # a gap
                        at = round(time_s * rate)
                    next_s = time_s + frame.samples / frame.sample_rate
                    given = (frame.format.name, frame.layout.name, frame.sample_rate)
                    if given != former:  # at first, and where a broadcast changes it
                        former, resampler = given, AudioResampler(format="fltp", layout=layout, rate=rate)
                    frame.pts = None
                    for part in resampler.resample(frame):
                        part.pts, part.time_base = at, Fraction(1, rate)
                        at += part.samples
                        yield part


def _decode_whole(packet: "Packet[AudioStream]") -> list[AudioFrame]:
    with suppress(av.error.FFmpegError):
        return _decode(packet)
    return []


def _decode(packet: "Packet[AudioStream]") -> list[AudioFrame]:
    """Decode a packet. Raises ``LimitError`` at sound that no program records, and ``FFmpegError`` at damage."""
    frames = packet.decode() if packet.size <= _MAX_PACKET_BYTES else None
    for frame in frames or ():
        is_usual = _LEAST_RATE <= frame.sample_rate <= _GREATEST_RATE and len(frame.layout.channels) <= _MAX_CHANNELS
        if not is_usual or frame.samples > _MAX_FRAME_S * frame.sample_rate:
            frames = None
    if frames is None:
        raise LimitError("its sound has an unusual rate, or packets that are too long")
    return frames


def has_damaged_sound(track: Track) -> bool:
    """Return whether a packet of the sound cannot be decoded: Chromium then plays no picture after it, either."""
    track.deadline.restart(track.duration_s or 0.0)
    with open_container(track.path) as container:
        stream = next(iter(container.streams.audio), None)
        try:
            for packet in demux(container, stream, deadline=track.deadline) if stream is not None else ():
                _decode(packet)
        except (av.error.FFmpegError, LimitError):
            return True
    return False


def find_sound_end(track: Track) -> float:
    """Return the end of the last packet of sound, in seconds on the clock of the pictures; 0 without sound."""
    end_s = 0.0
    with open_container(track.path) as container, suppress(av.error.FFmpegError):
        stream = next(iter(container.streams.audio), None)
        for packet in container.demux(stream) if stream is not None else ():
            if packet.pts is not None:
                end_s = max(end_s, seconds_of(packet.pts + (packet.duration or 0), packet.stream) - track.zero_s)
    return end_s


def measure_peaks(path: Path) -> tuple[float, NDArray[np.uint8]]:
    """Return the peaks per second of a video's sound, and the peaks, in [0, 255] of full scale; none without sound.

    Raises ``VideoError`` if the video cannot be read.
    """
    track = find_track(path)
    track.deadline.restart(track.duration_s or 0.0)
    peaks = np.zeros(0, np.uint8)
    per_s = min(PEAKS_PER_S, MAX_PEAKS / max(track.duration_s or 0.0, 1.0))
    for frame in read_sound(track, rate=_PEAK_RATE, layout="mono"):
        levels = np.abs(frame.to_ndarray()[0])
        at = (((frame.pts or 0) + np.arange(len(levels))) * (per_s / _PEAK_RATE)).astype(int)
        if at[-1] >= MAX_PEAKS:
            break
        if at[-1] >= len(peaks):
            peaks = np.concatenate([peaks, np.zeros(at[-1] + 1024 - len(peaks), np.uint8)])
        np.maximum.at(peaks, at, np.minimum(255, np.ceil(levels * 255)).astype(np.uint8))
    last = np.flatnonzero(peaks)
    return per_s, peaks[: last[-1] + 1] if len(last) else peaks[:0]

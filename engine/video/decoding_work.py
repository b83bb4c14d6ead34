"""The work of decoding a sampling of a video, from the index of its file. Nothing is decoded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import av
from av.container import InputContainer
from av.index import IndexEntry
from av.video.stream import VideoStream

from engine.errors import VideoError
from engine.records import Excerpt
from engine.video.track import EPSILON_S, Sampling, open_container, seconds_of

_DEFAULT_RATE: Final = 25.0
"""Pictures per second of a file that does not state them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingWork:
    """The pictures that a decoder decodes for a sampling: the needed ones, and those between key picture and these."""

    pictures: float
    megapixels: float
    """Their pixels in millions."""
    megabytes: float
    """Their packets, in millions of bytes."""


def measure_decoding(path: Path, *, fps: float, excerpt: Excerpt | None = None) -> DecodingWork:
    """Return the work of reading a video as ``read_frames`` does with the selective decoder.

    A file without an index of all pictures, such as Matroska, counts with all pictures of the read range. Pictures
    that no other refers to are counted too, although the decoder may skip them.

    Example: key pictures every 20 pictures, 10 pictures/s and 2 frames/s: the last needed picture of a group is its
    16th, so 16 of 20 are decoded.

    Raises ``VideoError`` if the file cannot be opened or has no video stream.
    """
    start_s, num_frames = (excerpt.start_s, excerpt.num_frames) if excerpt else (0.0, math.inf)
    sampling = Sampling(fps=fps, start_s=start_s, num_frames=num_frames)
    with open_container(path) as container:
        stream = container.streams.best("video")
        if not isinstance(stream, VideoStream):
            raise VideoError(f"{path}: has no video stream; give a video file")
        entries = list(stream.index_entries)
        is_indexed = stream.frames > 0 and len(entries) >= stream.frames
        pictures, num_bytes = (
            _count_indexed(entries, sampling, stream) if is_indexed else _count_all(container, sampling, stream)
        )
        return DecodingWork(
            pictures=pictures,
            megapixels=pictures * stream.width * stream.height / 1e6,
            megabytes=num_bytes / 1e6,
        )


def _count_indexed(entries: Sequence[IndexEntry], sampling: Sampling, stream: VideoStream) -> tuple[float, float]:
    """Return the decoded pictures and their bytes, from an index of all pictures in decoding order."""
    times_s = [seconds_of(entry.timestamp - entries[0].timestamp, stream) for entry in entries]
    step_s = 1 / _rate_of(stream)
    starts = [0, *(number for number, entry in enumerate(entries) if entry.is_keyframe and number)]
    pictures, num_bytes = 0, 0
    for first, end in pairwise([*starts, len(entries)]):
        end_s = times_s[end] if end < len(entries) else times_s[-1] + step_s
        needed_s = _last_instant(sampling, end_s)
        if needed_s is None or needed_s < times_s[first] - EPSILON_S:
            continue
        packets = [number for number in range(first, end) if times_s[number] <= needed_s + EPSILON_S]
        pictures += len(packets)
        num_bytes += sum(entries[number].size for number in packets)
    return pictures, num_bytes


def _last_instant(sampling: Sampling, end_s: float) -> float | None:
    """Return the last instant that is sampled before ``end_s``, in seconds; None if there is none."""
    number = min(math.ceil((end_s - EPSILON_S - sampling.start_s) * sampling.fps), sampling.num_frames) - 1
    return None if number < 0 else sampling.start_s + number / sampling.fps


def _count_all(container: InputContainer, sampling: Sampling, stream: VideoStream) -> tuple[float, float]:
    """Return the pictures of the read range and their bytes, from the length and the size of the file."""
    duration_s = (container.duration or 0) / av.time_base
    end_s = min(duration_s, sampling.start_s + sampling.num_frames / sampling.fps)
    read_s = max(0.0, end_s - sampling.start_s)
    return read_s * _rate_of(stream), container.size * read_s / duration_s if duration_s else 0.0


def _rate_of(stream: VideoStream) -> float:
    return float(stream.average_rate or stream.guessed_rate or _DEFAULT_RATE)

"""The work of decoding a sampling of a video, from the index of its file. Nothing is decoded."""

import math
from collections.abc import Sequence
from contextlib import suppress
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
_LISTS_KEY_PICTURES: Final = frozenset({"matroska,webm"})
"""Containers with a list of key pictures. **Source**: RFC 9559, section 5.1.5 (Cues)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingWork:
    """The pictures that a decoder decodes for a sampling: the needed ones, and those between key picture and these."""

    codec: str
    """FFmpeg's name of the codec, such as ``h264``."""
    pictures: float
    megapixels: float
    """Their pixels in millions."""
    megabytes: float
    """Their packets, in millions of bytes."""


def measure_decoding(path: Path, *, fps: float, excerpt: Excerpt | None = None) -> DecodingWork:
    """Return the work of reading a video as ``read_frames`` does with the selective decoder.

    Matroska and WebM list key pictures alone: the pictures between them are counted by the rate, and share their bytes,
    and those of other streams, evenly. A file without a list counts with all pictures of the read range. Pictures that
    no other refers to are counted too, although the decoder may skip them.

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
        pictures, num_bytes = _count_pictures(container, stream, sampling)
        return DecodingWork(
            codec=stream.codec_context.codec.canonical_name,
            pictures=pictures,
            megapixels=pictures * stream.width * stream.height / 1e6,
            megabytes=num_bytes / 1e6,
        )


def _count_pictures(container: InputContainer, stream: VideoStream, sampling: Sampling) -> tuple[float, float]:
    """Return the decoded pictures and their bytes, from the best list that the file has."""
    entries = list(stream.index_entries)
    if stream.frames > 0 and len(entries) >= stream.frames:
        return _count_indexed(entries, sampling, stream)
    if container.format.name in _LISTS_KEY_PICTURES:
        with suppress(av.error.FFmpegError):
            container.seek(0)  # reads the list, which may be at the end of the file
        entries = [entry for entry in stream.index_entries if entry.is_keyframe]
        if len(entries) > 1:
            return _count_between(entries, container, sampling, stream)
    return _count_all(container, sampling, stream)


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


def _count_between(
    entries: Sequence[IndexEntry], container: InputContainer, sampling: Sampling, stream: VideoStream
) -> tuple[float, float]:
    """Return about the decoded pictures and their bytes, from a list of key pictures."""
    rate = _rate_of(stream)
    times_s = [seconds_of(entry.timestamp - entries[0].timestamp, stream) for entry in entries]
    times_s.append(max((container.duration or 0) / av.time_base, times_s[-1]))
    positions = [*(entry.pos for entry in entries), max(container.size, entries[-1].pos)]
    pictures, num_bytes = 0, 0.0
    for (begin_s, end_s), (begin, end) in zip(pairwise(times_s), pairwise(positions), strict=True):
        needed_s = _last_instant(sampling, end_s)
        if needed_s is None or needed_s < begin_s - EPSILON_S:
            continue
        in_group = max(1, round((end_s - begin_s) * rate))
        decoded = min(in_group, int((needed_s + EPSILON_S - begin_s) * rate) + 1)
        pictures += decoded
        num_bytes += (end - begin) * decoded / in_group
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

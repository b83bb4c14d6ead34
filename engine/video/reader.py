"""Reads a video file as a stream of upright frames at a constant rate, each with its true time in the video.

``engine.video.selective`` decodes the pictures that are needed; where it cannot, PyAV, decord and OpenCV in turn decode
all. When a decoder fails in the middle, the next continues at that frame. A damaged file yields its readable frames and
then a ``VideoWarning``, one without any a ``VideoError``. Audio is ignored.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path

import cv2
import numpy as np
from av.error import FFmpegError

from stepscope.engine.dialogue import format_clock
from stepscope.engine.errors import VideoError
from stepscope.engine.io.arguments import check_path, check_type
from stepscope.engine.records import Excerpt
from stepscope.engine.video.decoders import (
    Picture,
    decode_with_decord,
    decode_with_opencv,
    decode_with_pyav,
    open_stream,
)
from stepscope.engine.video.packets import MATROSKA, DecodeError, LimitError, PacketReader, seconds_of
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.sound import find_sound_end, has_damaged_sound
from stepscope.engine.video.track import EPSILON_S, Sampling, Track, find_track, measure_packets, open_container

_MAX_STILL_S = 3600.0
"""Longest time for which one picture is displayed without a remark, in seconds; lectures and lapses have minutes."""

Decoders = tuple[Callable[[Track], Iterator[Picture]], ...]
DECODERS: Decoders = (decode_with_pyav, decode_with_decord, decode_with_opencv)
SAMPLED_DECODERS: Decoders = (decode_sampled, *DECODERS)
"""Those of ``sample_track``; the first decodes only the pictures that are needed."""


class VideoWarning(UserWarning):
    """A video is damaged and was read only partly, or was decoded in software although a device should."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """The picture on display at one sampling instant."""

    index: int
    """Index of the instant, from 0; the instant is ``index / fps`` seconds after the start of the read range."""
    time_s: float
    """True presentation time of the picture, in seconds on the clock of a browser that plays the file.

    In an excerpt it counts from the excerpt's start, and is 0 for a picture that was already on display there.
    """
    image: np.ndarray
    """uint8 [H, W, 3] RGB, upright. Frames that repeat a picture share its image: copy it before changing it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DisplayedPicture:
    """One picture of the video and its display interval; ``time_s`` and ``image`` as in ``Frame``."""

    time_s: float
    until_s: float
    """Start of the next picture, or end of the video, in seconds."""
    image: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInfo:
    """Properties of a video according to its container; its size is that of the upright picture, in pixels."""

    duration_s: float
    """End of the last picture, in seconds."""
    native_fps: float
    """Average pictures per second; nan if unknown."""
    width: int
    height: int
    codec: str
    """FFmpeg's name of the codec, such as ``h264``."""
    is_browser_playable: bool
    """Whether Chromium plays the file."""
    copy_reason: str
    """Why a browser needs a converted copy even of a whole file to show what ``read_frames`` reads; empty if not."""


OnDamage = Callable[[str], None]
"""Callback for a damaged video; it gets a description of the damage once, after the last frame.

For a video that a device should decode and could not, it gets the reason, before the first frame of the next decoder.
"""


def warn_damaged(message: str) -> None:
    """Issue a ``VideoWarning``. A reader in a thread needs its own callback, because warning filters are global."""
    warnings.warn(message, VideoWarning, stacklevel=3)


def read_frames(
    path: str | Path,
    *,
    fps: float,
    size: tuple[int, int] | None = None,
    excerpt: Excerpt | None = None,
    on_damage: OnDamage = warn_damaged,
    device: str = "cpu",
) -> Iterator[Frame]:
    """Sample a video at ``fps`` frames per second: frame ``i`` is the picture on display at ``i / fps`` seconds.

    Before the first picture is due, frames repeat it. A source slower than ``fps`` repeats pictures. Of an
    ``excerpt``, frame ``i`` is the picture at ``start_s + i / fps`` seconds, and at most ``num_frames`` are read.
    Images are resized to ``size``, (height, width) in pixels, with ``INTER_AREA``. ``on_damage`` is called once, after
    the last readable frame of a damaged file.

    ``device`` decodes: ``cpu``, or a GPU such as ``cuda`` or ``cuda:1``, whose pixels may differ. A video that it does
    not decode is decoded in software; ``on_damage`` is called then, too.

    Raises:
        ValueError: ``fps`` or ``size`` is not positive.
        VideoError: No picture can be read, or the file ends before the excerpt starts.
    """
    check_path("path", path)
    check_type("fps", fps, Real, "a number")
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be positive and finite, not {fps}")
    if size is not None and (not isinstance(size, tuple | list) or len(size) != 2 or min(size) < 1):
        raise ValueError(f"size must be (height, width) of at least 1 pixel each, not {size}")
    decoders = SAMPLED_DECODERS
    if device != "cpu":
        decoders = (partial(_decode_on_device, device=device, on_fallback=on_damage), *SAMPLED_DECODERS)
    track = find_track(Path(path))
    return sample_track(track, fps=fps, size=size, excerpt=excerpt, decoders=decoders, on_damage=on_damage)


def probe(path: str | Path) -> VideoInfo:
    """Describe a video from its header and first picture; if the header has no duration, from all packets.

    Raises ``VideoError`` as ``read_frames`` does.
    """
    track = find_track(Path(path))
    duration_s, fps = track.duration_s, track.fps
    copy_reason = track.copy_reason
    if duration_s is None or fps is None or not track.is_indexed:
        listed = measure_packets(track)
        duration_s = max(duration_s or 0.0, listed.end_s)
        fps = listed.average_fps or fps or math.nan
        if listed.num_recordings > 1 and not copy_reason:
            copy_reason = f"it holds {listed.num_recordings} recordings whose times begin again"
    if not copy_reason and track.playback_s <= 0:  # a live recording, whose header has no duration
        track = replace(track, playback_s=find_sound_end(track))
    if not copy_reason and track.plays_beyond(duration_s):
        copy_reason = "browsers play on after its last picture"
    if not copy_reason and track.stops_before(duration_s):
        copy_reason = "browsers stop before its last picture"
    return VideoInfo(
        duration_s=duration_s,
        native_fps=fps,
        width=track.width,
        height=track.height,
        codec=track.codec,
        is_browser_playable=track.is_browser_playable,
        copy_reason=copy_reason,
    )


def find_cut(path: str | Path) -> float | None:
    """Return the time in seconds at which a file is cut off, from its packets; None for a whole file.

    Only the first picture is decoded. Raises ``VideoError`` if no picture can be decoded.
    """
    track = find_track(Path(path))
    try:
        next(sample_track(track, fps=1.0, size=None, on_damage=lambda _: None))
    except (VideoError, StopIteration) as error:  # the latter if it ends within the tolerance of times
        raise VideoError(f"{track.path}: no picture can be read; export or download the video again") from error
    end_s = measure_packets(track).end_s
    return end_s if track.is_cut_off or track.lasts_beyond(end_s) else None


def find_damage(path: str | Path) -> float | None:
    """Return the time in seconds of the first packet of H.264 or H.265 that lacks data; None if there is none.

    No picture is decoded after the first: this takes a hundredth of the time of decoding. Other codecs are not checked,
    because their decoders skip nothing. Damage inside a picture is found only when the picture is decoded.
    """
    track = find_track(Path(path))
    if track.codec not in ("h264", "hevc"):
        return None
    with open_container(track.path) as container:
        stream, time_s = open_stream(container, track), 0.0
        stream.codec_context.skip_frame = "ALL"
        stream.thread_type = "NONE"  # threads report a damaged packet at a later one
        with suppress(FFmpegError):  # the packets end early: the file is cut off
            reader = PacketReader(container, stream, is_first_only=track.has_unreadable_rest)
            for packet in reader:
                ticks = packet.pts if reader.lost_ticks is None else reader.lost_ticks
                time_s = time_s if ticks is None else seconds_of(ticks, stream) - track.zero_s
                if reader.lost_ticks is not None:
                    break
                try:
                    packet.decode()
                except FFmpegError:
                    break
            else:
                return None
            return max(0.0, time_s)
    return None


def find_copy_reason(path: str | Path) -> str:
    """Return why a browser needs a converted copy to show what ``read_frames`` reads; empty if it can show the file.

    Raises ``VideoError`` as ``probe`` does.
    """
    if reason := probe(path).copy_reason:
        return reason
    track = find_track(Path(path))
    if _shows_early(track):
        return "browsers show some of its pictures too early"
    if find_damage(path) is not None:
        return "browsers show no pictures from its damage on"
    if not has_damaged_sound(track):
        return ""
    return f"browsers show no pictures from {'its cut' if find_cut(path) is not None else 'damage in its sound'} on"


def _shows_early(track: Track) -> bool:
    """Return whether Chromium shows pictures early: of files that state no ends it guesses them, from packets alone."""
    if track.container != MATROSKA and track.is_indexed:
        return False
    with open_container(track.path) as container:
        has_b_frames = bool(open_stream(container, track).codec_context.has_b_frames)
    return has_b_frames or not measure_packets(track).is_even


def find_still(path: str | Path) -> str:
    """Describe a picture that is displayed for more than an hour; empty if there is none. Nothing is decoded."""
    pictures = measure_packets(find_track(Path(path))).pictures
    return next(filter(None, (_describe_still(picture.time_s, picture.end_s) for picture in pictures)), "")


def _describe_still(time_s: float, until_s: float) -> str:
    if until_s - time_s <= _MAX_STILL_S:
        return ""
    return (
        f"one picture is displayed from {format_clock(time_s)} to {format_clock(until_s)}; "
        "if its recorder's clock jumped, cut the file there and join the parts with FFmpeg's concat"
    )


def decode_pictures(
    track: Track,
    *,
    select: Callable[[float, float], bool],
    stop_s: float = math.inf,
    decoders: Decoders = DECODERS,
    on_damage: OnDamage = warn_damaged,
) -> Iterator[DisplayedPicture]:
    """Decode the pictures for which ``select(time_s, until_s)`` is true, changing the decoder when one fails.

    ``select`` is called for every picture from ``track.begin_s`` on that starts before ``stop_s``. The next decoder
    starts from the beginning again, so ``select`` must return False for pictures that were yielded already.
    Raises ``VideoError`` if no picture could be read; calls ``on_damage`` at the end of a damaged file.
    """
    reached_s, damage, still, reasons = 0.0, "", "", list[str]()
    for decode in decoders:
        end_s, is_sequential = 0.0, False
        track.deadline.restart()
        try:
            for picture, until_s in _with_end_times(decode(track)):
                is_first = end_s == 0  # it is on display before its time, too
                if picture.time_s >= stop_s and not is_first:
                    end_s = max(end_s, stop_s)
                    break
                still = still or _describe_still(picture.time_s, min(until_s, stop_s))
                track.deadline.check()
                is_selected = select(picture.time_s, until_s)
                if is_selected:
                    yield DisplayedPicture(time_s=picture.time_s, until_s=until_s, image=picture.fetch())
                    track.deadline.restart()
                else:
                    track.deadline.extend(until_s - picture.time_s)
                if is_selected or picture.is_decoded:
                    reached_s = max(reached_s, until_s)
                end_s, is_sequential = until_s, picture.is_decoded
            if end_s > 0 and (end_s >= stop_s or not track.lasts_beyond(end_s)):
                reached_s = max(reached_s, end_s)
                break
            reasons.append(f"the file ends early, its header declares {track.duration_s or 0:.2f} s")
        except DecodeError as error:
            reasons.append(str(error))
            if isinstance(error, LimitError):
                damage = damage or reasons[-1]
                break
        if is_sequential and not damage:  # a failure of the others does not prove damage
            damage = reasons[-1]
    else:
        damage = damage or reasons[-1]
    if reached_s == 0:
        listed = "; ".join(dict.fromkeys(reasons))
        raise VideoError(f"{track.path}: no picture can be decoded ({listed}); export or download the video again")
    if not damage and track.has_unreadable_rest and math.isinf(stop_s):
        on_damage(
            f"{track.path}: only its first {reached_s:.2f} s can be read: another recording is appended to the file; "
            "give each recording as a file, or join them with FFmpeg's concat"
        )
    if track.is_cut_off and math.isinf(stop_s):
        damage = damage or "the file is cut off"
    if track.is_rate_assumed:
        still = still or (
            f"states no times of its pictures, {1 / track.step_s:g} per second are assumed; if it has 30, give them "
            "times: ffmpeg -r 30 -i IN -c copy OUT.mp4"
        )
    if still and not damage:
        on_damage(f"{track.path}: {still}")
    if damage:
        damage = f"damaged, could be read up to {reached_s:.2f} s ({damage})"
        on_damage(f"{track.path}: {damage}; export or download it again")


def sample_track(
    track: Track,
    *,
    fps: float,
    size: tuple[int, int] | None,
    excerpt: Excerpt | None = None,
    decoders: Decoders = SAMPLED_DECODERS,
    on_damage: OnDamage = warn_damaged,
) -> Iterator[Frame]:
    """Sample a track as ``read_frames`` does, with the same errors."""
    start_s, num_frames = (excerpt.start_s, excerpt.num_frames) if excerpt else (0.0, math.inf)
    sampling = Sampling(fps=fps, start_s=start_s, num_frames=num_frames)
    index = 0

    def is_due(_: float, until_s: float) -> bool:
        return sampling.is_due(index, until_s)

    if excerpt:
        check_start(track, start_s)
    track = replace(track, begin_s=start_s, sampling=sampling)
    stop_s = start_s + (num_frames - 1) / fps + 2 * EPSILON_S
    for shown in decode_pictures(track, select=is_due, stop_s=stop_s, decoders=decoders, on_damage=on_damage):
        image = shown.image
        if size is not None and image.shape[:2] != size:
            image = cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_AREA)
        time_s = max(0.0, round(shown.time_s - start_s, 6)) if start_s else shown.time_s
        while is_due(shown.time_s, shown.until_s):
            yield Frame(index=index, time_s=time_s, image=image)
            index += 1
    if excerpt and index == 0:
        raise ends_before_error(track, start_s)


def check_start(track: Track, start_s: float) -> None:
    """Raise ``VideoError`` if the video ends before ``start_s`` according to its header."""
    if track.is_indexed and track.duration_s is not None and start_s >= track.duration_s - EPSILON_S:
        raise ends_before_error(track, start_s)


def ends_before_error(track: Track, start_s: float) -> VideoError:
    """Return the error for a video without a picture from its clip's start on."""
    ends = ""
    if track.duration_s is not None:
        if start_s < track.duration_s - EPSILON_S:
            return VideoError(
                f"{track.path}: no picture can be read from {start_s:g} s on, where the clip starts; "
                "export or download the video again"
            )
        ends = f" at {track.duration_s:.2f} s" if track.is_indexed else ""
    return VideoError(
        f"{track.path}: ends{ends}, before the clip starts at {start_s:g} s; give the whole video of the clip"
    )


def _decode_on_device(track: Track, *, device: str, on_fallback: OnDamage) -> Iterator[Picture]:
    """Decode as ``decode_sampled`` on a device; call ``on_fallback`` if the next decoder must take over."""
    try:
        yield from decode_sampled(track, device=device)
    except DecodeError as error:
        on_fallback(f"{track.path}: decoded in software, not on {device} ({error})")
        raise


def _with_end_times(pictures: Iterator[Picture]) -> Iterator[tuple[Picture, float]]:
    """Pair each picture with the end of its display, in seconds; a ``DecodeError`` is raised after the last pair."""
    held, failure = None, None
    try:
        for picture in pictures:
            if held is None or picture.time_s >= held.time_s:  # a picture whose time jumps back is never displayed
                if held is not None:
                    yield held, picture.time_s
                held = picture
    except DecodeError as error:
        failure = error
    if held is not None:
        yield held, held.end_s
    if failure is not None:
        raise failure

"""Reads video: a file becomes frames at a steady rate, each with its true time in the video.

The only door to decord, PyAV and OpenCV (behind it: ``engine.video.decoders``). Decoders are tried in that order; when
one fails in the middle, the next carries on at the frame where it failed. Pictures come out upright whatever
the rotation in the file, and stream: memory does not grow with the length of the video. A damaged file gives
what can be read and then one ``VideoWarning``; a file that gives nothing is a ``VideoError``. No audio here.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from engine.errors import VideoError
from engine.records import Excerpt
from engine.video.decoders import (
    DecodeError,
    Picture,
    Track,
    decode_with_decord,
    decode_with_opencv,
    decode_with_pyav,
    find_track,
)
from engine.video.packets import measure_packets

EPSILON_S = 6e-4
"""A picture this much after an instant still counts as on display: containers round times, Matroska to 1 ms."""


Decoders = tuple[Callable[[Track], Iterator[Picture]], ...]
DECODERS: Decoders = (decode_with_decord, decode_with_pyav, decode_with_opencv)
"""In the order in which they are tried."""


class VideoWarning(UserWarning):
    """A video is damaged, and was read only in part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """The picture on display at one sampling instant."""

    index: int
    """Index of the instant, from 0; the instant is ``index / fps`` seconds after the start of what is read."""
    time_s: float
    """True presentation time of the picture, in seconds on the clock of a browser that plays the file.

    Of an excerpt it counts from its start, and is 0 for a picture that was on display before.
    """
    image: np.ndarray
    """uint8 [H, W, 3] RGB, upright. Frames that repeat a picture share it: copy before writing into it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DisplayedPicture:
    """One picture of the video and the time during which it is on display."""

    time_s: float
    """True presentation time, in seconds on the clock of a browser that plays the file."""
    until_s: float
    """When the next picture takes its place, or the video ends, in seconds."""
    image: np.ndarray
    """uint8 [H, W, 3] RGB, upright."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInfo:
    """What the container says about its video."""

    duration_s: float
    """When the last picture goes off display, in seconds."""
    native_fps: float
    """Average pictures per second; nan when the file does not tell."""
    width: int
    """Width as displayed, after rotation, in pixels."""
    height: int
    """Height as displayed, after rotation, in pixels."""
    codec: str
    """FFmpeg's name of the codec, such as ``h264``."""
    is_browser_playable: bool
    """Whether Chromium plays the file and shows the video stream that ``read_frames`` reads."""


OnDamage = Callable[[str], None]
"""Hears once, after the last frame, what is wrong with a damaged video."""


def warn_damaged(what: str) -> None:
    """Give the ``VideoWarning``; who reads in a thread says instead what is to be called, for warnings are global."""
    warnings.warn(what, VideoWarning, stacklevel=3)


def read_frames(
    path: str | Path,
    *,
    fps: float,
    size: tuple[int, int] | None = None,
    excerpt: Excerpt | None = None,
    on_damage: OnDamage = warn_damaged,
) -> Iterator[Frame]:
    """Sample a video at ``fps`` frames per second: frame ``i`` is the picture on display at ``i / fps`` seconds.

    Instants before the first picture take the first; a source slower than ``fps`` repeats pictures. ``size`` is
    (height, width) to resize to, with ``INTER_AREA``. With an ``excerpt`` frame ``i`` is the picture at
    ``start_s + i / fps`` seconds, and at most ``num_frames`` are read: fewer where the file ends before.

    Raises ``ValueError`` for a wrong rate or size, ``VideoError`` for a file that gives no picture or ends before the
    excerpt starts; calls ``on_damage`` once after the frames of a file that is damaged up to there.
    """
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be positive and finite, not {fps}")
    if size is not None and min(size) < 1:
        raise ValueError(f"size must be (height, width) of at least 1 pixel each, not {size}")
    return sample_track(find_track(Path(path)), fps=fps, size=size, excerpt=excerpt, on_damage=on_damage)


def probe(path: str | Path, *, max_pixels: int | None = None) -> VideoInfo:
    """Describe a video from its header and first picture; without a duration there, from all its packets.

    Raises ``VideoError`` as ``read_frames`` does, and for pictures of more than ``max_pixels``.
    """
    track = find_track(Path(path), max_pixels=max_pixels)
    duration_s, fps = track.duration_s, track.fps
    if duration_s is None or fps is None:
        span = measure_packets(track)
        duration_s = span.duration_s if duration_s is None else duration_s
        fps = fps or (span.num_packets / span.duration_s if span.duration_s > 0 else math.nan)
    return VideoInfo(
        duration_s=duration_s,
        native_fps=fps,
        width=track.width,
        height=track.height,
        codec=track.codec,
        is_browser_playable=_is_browser_playable(track),
    )


def decode_pictures(
    track: Track,
    *,
    wants: Callable[[float, float], bool],
    stop_s: float = math.inf,
    decoders: Decoders = DECODERS,
    on_damage: OnDamage = warn_damaged,
) -> Iterator[DisplayedPicture]:
    """Decode the pictures for which ``wants(time_s, until_s)`` holds, one decoder taking over from another.

    ``wants`` is asked for every picture from ``track.begin_s`` on that starts before ``stop_s``, again after a change
    of decoder, and must refuse what it has had.
    Raises ``VideoError`` when nothing could be read; calls ``on_damage`` at the end of a damaged file.
    """
    reached_s, is_damaged, reasons = 0.0, False, list[str]()
    for decode in decoders:
        end_s, is_sequential = 0.0, False
        try:
            for picture, until_s in _with_end_times(decode(track)):
                if picture.time_s >= stop_s:
                    end_s = max(end_s, stop_s)
                    break
                is_wanted = wants(picture.time_s, until_s)
                if is_wanted:
                    yield DisplayedPicture(time_s=picture.time_s, until_s=until_s, image=picture.fetch())
                if is_wanted or picture.is_decoded:
                    reached_s = max(reached_s, until_s)
                end_s, is_sequential = until_s, picture.is_decoded
            if end_s > 0 and (end_s >= stop_s or not track.lasts_beyond(end_s)):
                reached_s = max(reached_s, end_s)
                break
            reasons.append(f"the file ends early, its header promises {track.duration_s or 0:.2f} s")
        except DecodeError as error:
            reasons.append(str(error))
        is_damaged = is_damaged or is_sequential  # decord may just be unable, and OpenCV is silent about damage
    else:
        is_damaged = True
    if reached_s == 0:
        what = "; ".join(reasons)
        raise VideoError(f"{track.path}: no picture can be decoded ({what}); export or download the video again")
    if is_damaged:
        what = f"damaged, could be read up to {reached_s:.2f} s ({reasons[min(1, len(reasons) - 1)]})"
        on_damage(f"{track.path}: {what}; export or download it again")


def sample_track(
    track: Track,
    *,
    fps: float,
    size: tuple[int, int] | None,
    excerpt: Excerpt | None = None,
    decoders: Decoders = DECODERS,
    on_damage: OnDamage = warn_damaged,
) -> Iterator[Frame]:
    """Sample a track that has been found: the rest of ``read_frames``, with its errors."""
    start_s, num_frames = (excerpt.start_s, excerpt.num_frames) if excerpt else (0.0, math.inf)
    index = 0

    def is_due(_: float, until_s: float) -> bool:
        return index < num_frames and start_s + index / fps < until_s - EPSILON_S

    if excerpt:
        check_start(track, start_s)
        track = replace(track, begin_s=start_s)
    stop_s = start_s + (num_frames - 1) / fps + 2 * EPSILON_S
    for shown in decode_pictures(track, wants=is_due, stop_s=stop_s, decoders=decoders, on_damage=on_damage):
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
    """Raise ``VideoError`` where the header says that the video ends before ``start_s``."""
    if track.duration_s is not None and start_s >= track.duration_s - EPSILON_S:
        raise ends_before_error(track, start_s)


def ends_before_error(track: Track, start_s: float) -> VideoError:
    """Return the error of a video that ends before a clip of it starts."""
    ends = "" if track.duration_s is None else f" at {track.duration_s:.2f} s"
    return VideoError(
        f"{track.path}: ends{ends}, before the clip starts at {start_s:g} s; give the whole video that the clip is of"
    )


def _with_end_times(pictures: Iterator[Picture]) -> Iterator[tuple[Picture, float]]:
    """Pair each picture with the second at which it goes off display; a failure comes after the last pair."""
    held, failure = None, None
    try:
        for picture in pictures:
            if held is None or picture.time_s >= held.time_s:  # a time that jumps back is never on display
                if held is not None:
                    yield held, picture.time_s
                held = picture
    except DecodeError as error:
        failure = error
    if held is not None:
        yield held, held.end_s
    if failure is not None:
        raise failure


def _is_browser_playable(track: Track) -> bool:
    is_webm = track.path.suffix.lower() == ".webm"
    if not track.is_first or not (is_webm or track.container.startswith("mov,")):
        return False
    if track.codec == "h264":
        return not is_webm and track.pixel_format in ("yuv420p", "yuvj420p")
    return track.codec in ("vp8", "vp9", "av1")

"""Writes video: encodes images as an H.264 mp4 that every browser plays, and converts any readable video to one.

The format is yuv420p with tagged BT.601 colours, the index at the front, and a key picture at least every 2 s for
precise seeking. Files are written atomically. libx264 comes with PyAV; no ffmpeg program is needed.
"""

import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import Flags
from av.container import OutputContainer
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.io.files import atomic_write
from stepscope.engine.video.reader import check_start, decode_pictures, ends_before_error
from stepscope.engine.video.sound import RATE, read_sound
from stepscope.engine.video.stills import fit_image, video_size
from stepscope.engine.video.track import EPSILON_S, find_track

CLOCK = 90_000
"""Ticks per second of the times written: a whole number per picture at 24, 25, 29.97, 30, 50 and 60 fps."""
KEY_EVERY_S = 2.0
"""Maximum time between two key pictures, in seconds; a picture that is displayed longer is always one."""


class Encoder:
    """Encodes images with given times into a stream of an open container."""

    def __init__(
        self, container: OutputContainer, stream: VideoStream, *, sound: Iterator[AudioFrame] | None = None
    ) -> None:
        self._container, self._stream, self._key_s = container, stream, -math.inf
        self._sound = sound if sound is not None else iter(())
        self._next_sound = next(self._sound, None)
        self._sound_stream: AudioStream | None = None
        if self._next_sound is not None:
            self._sound_stream = container.add_stream("aac", rate=RATE, layout="stereo")

    def write(self, image: np.ndarray, *, time_s: float | Fraction, until_s: float | Fraction) -> None:
        """Encode one image, uint8 [H, W, 3] RGB, displayed from ``time_s`` to ``until_s`` seconds."""
        shape = (self._stream.height, self._stream.width, 3)
        if image.dtype != np.uint8 or image.shape != shape:
            raise ValueError(f"images must all be uint8 {list(shape)}, not {image.dtype} {list(image.shape)}")
        frame = VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        frame = frame.reformat(format="yuv420p", dst_colorspace=Colorspace.SMPTE170M)
        frame.pts, frame.time_base = round(time_s * CLOCK), Fraction(1, CLOCK)
        frame.duration = round(until_s * CLOCK) - frame.pts
        if until_s - self._key_s > KEY_EVERY_S:
            frame.pict_type, self._key_s = PictureType.I, float(time_s)
        self._container.mux(self._stream.encode(frame))
        self._write_sound(float(until_s))

    def finish(self) -> None:
        """Write what the encoders still hold."""
        self._container.mux(self._stream.encode(None))
        if self._sound_stream is not None:
            self._container.mux(self._sound_stream.encode(None))

    def _write_sound(self, until_s: float) -> None:
        """Encode the sound up to a time, between the pictures, as a browser reads them."""
        while (
            self._sound_stream is not None and self._next_sound is not None and (self._next_sound.time or 0.0) < until_s
        ):
            self._container.mux(self._sound_stream.encode(self._next_sound))
            self._next_sound = next(self._sound, None)


@contextmanager
def open_encoder(
    path: Path,
    *,
    height: int,
    width: int,
    fps: Fraction,
    crf: int,
    preset: str,
    sound: Iterator[AudioFrame] | None = None,
) -> Iterator[Encoder]:
    """Open an encoder whose file replaces ``path`` when the block ends without an exception; ``sound`` is its sound."""
    if height < 2 or width < 2 or height % 2 or width % 2:
        raise ValueError(f"height and width must be even for H.264 yuv420p, not {height} x {width}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            part = Path(folder, "video.mp4")  # FFmpeg opens it a second time, by name, to move the index to the front
            with av.open(f"file:{part}", "w", format="mp4", options={"movflags": "+faststart"}) as container:
                stream = add_h264(container, height=height, width=width, fps=fps, crf=crf, preset=preset)
                encoder = Encoder(container, stream, sound=sound)
                yield encoder
                encoder.finish()
            with part.open("rb") as encoded, atomic_write(path, binary=True) as file:
                shutil.copyfileobj(encoded, file)
    except (av.error.FFmpegError, OSError) as error:
        raise VideoError(f"{path}: cannot be written ({error}); check the folder and its free space") from error


def add_h264(
    container: OutputContainer,
    *,
    height: int,
    width: int,
    fps: Fraction,
    crf: int,
    preset: str,
    options: Mapping[str, str] | None = None,
) -> VideoStream:
    """Add an H.264 stream of even sizes to an open container; ``options`` are those of x264."""
    stream = container.add_stream("libx264", rate=fps, options={"crf": str(crf), "preset": preset, **(options or {})})
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    stream.codec_context.time_base = Fraction(1, CLOCK)
    stream.codec_context.max_b_frames = 0  # with them, an mp4 of a variable rate gets a wrong duration
    stream.codec_context.flags |= Flags.frame_duration
    # all tags: Chromium takes a video of 720 lines without primaries for one of BT.709, whatever its matrix is
    stream.codec_context.colorspace = Colorspace.SMPTE170M
    stream.codec_context.color_range = ColorRange.MPEG
    stream.codec_context.color_primaries = ColorPrimaries.BT709
    stream.codec_context.color_trc = ColorTrc.BT709
    return stream


def write_h264(path: str | Path, images: Iterable[np.ndarray], *, fps: float | Fraction, crf: int = 23) -> int:
    """Write images, uint8 [H, W, 3] RGB of one even size, as a video at ``fps``. Returns their number.

    ``crf`` is x264's quality, from 0 (lossless) to 51. Raises ``ValueError`` if there are no images, or if their
    shapes are invalid; ``VideoError`` if the encoder or the disk fails. After an error, ``path`` is unchanged.
    """
    rate, rest = Fraction(fps).limit_denominator(1001), iter(images)
    first = next(rest, None)
    if first is None:
        raise ValueError("there are no images; a video needs at least one")
    height, width = first.shape[:2]
    with open_encoder(Path(path), height=height, width=width, fps=rate, crf=crf, preset="medium") as encoder:
        for number, image in enumerate(itertools.chain([first], rest), start=1):
            encoder.write(image, time_s=(number - 1) / rate, until_s=number / rate)
    return number


def convert_for_browser(
    source: str | Path, target: str | Path, *, start_s: float = 0.0, duration_s: float = math.inf
) -> None:
    """Re-encode any readable video as an H.264 mp4 with the same pictures and sound at their true times.

    Pictures are upright, with square pixels, at most 1280 pixels wide, and of even sizes. One of other proportions than
    the first gets bars. The output has at most ``duration_s`` seconds from ``start_s`` on; the display of its first and
    last picture is cut there. A damaged source is converted up to the damage, with a ``VideoWarning``. Raises
    ``VideoError`` if no picture can be read, the video ends before ``start_s``, or the target cannot be written; then
    ``target`` is unchanged.
    """
    track = replace(find_track(Path(source)), begin_s=start_s)
    check_start(track, start_s)
    if not (track.width and track.height):  # the header has no size, and no picture can be read
        raise VideoError(f"{track.path}: no picture can be read; copy or download it again")
    height, width = video_size(track.height, track.width * track.pixel_aspect)
    fps = Fraction(track.fps or 25).limit_denominator(1001)
    written_s = -1.0

    def is_later(time_s: float, until_s: float) -> bool:
        return until_s > start_s + EPSILON_S and round(time_s * CLOCK) > round(written_s * CLOCK)

    sound = read_sound(track, start_s=start_s)
    with (
        closing(sound),
        open_encoder(
            Path(target), height=height, width=width, fps=fps, crf=23, preset="veryfast", sound=sound
        ) as encoder,
    ):
        for picture in decode_pictures(track, select=is_later, stop_s=start_s + duration_s):
            image = fit_image(picture.image, (height, width), pixel_aspect=track.pixel_aspect)
            begin_s = start_s if written_s < 0 else picture.time_s  # the first picture is displayed from the start
            until_s = min(picture.until_s, start_s + duration_s)
            encoder.write(image, time_s=begin_s - start_s, until_s=until_s - start_s)
            written_s = max(0.0, picture.time_s)
        if written_s < 0:
            raise ends_before_error(track, start_s)

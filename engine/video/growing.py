"""A video file that can be played while it grows: a fragmented mp4, of which a killed process loses the last pictures.

Each picture is a fragment of its own, written at once. ``finish_growing`` rewrites the file with its index at the
front, as ``engine.video.writer`` writes it; the pictures are copied, not encoded again.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

import av

from stepscope.engine.errors import VideoError
from stepscope.engine.video.track import open_media, reason_of
from stepscope.engine.video.writer import Encoder, add_h264

_FRAGMENTED: Final = {"movflags": "+frag_every_frame+empty_moov+default_base_moof", "flush_packets": "1"}
_AT_ONCE: Final = {"tune": "zerolatency"}
"""x264 otherwise holds back up to 40 pictures, which are 20 s of a live session."""


@contextmanager
def open_growing_encoder(path: Path, *, height: int, width: int, fps: Fraction) -> Iterator[Encoder]:
    """Open an encoder that writes to ``path`` from the first picture on. Raises ``VideoError`` if it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(f"file:{path}", "w", format="mp4", options=_FRAGMENTED) as container:
            stream = add_h264(
                container, height=height, width=width, fps=fps, crf=23, preset="veryfast", options=_AT_ONCE
            )
            encoder = Encoder(container, stream)
            yield encoder
            encoder.finish()
    except (av.error.FFmpegError, OSError) as error:
        reason = reason_of(error)
        raise VideoError(f"{path}: cannot be written ({reason}); check the folder and its free space") from error


def finish_growing(path: Path) -> None:
    """Rewrite a video of ``open_growing_encoder`` with its index at the front, also one whose process was killed.

    Raises ``VideoError`` if it has no whole picture, and ``OSError`` with its name, such as for a full disk. The file
    is then unchanged.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        if _copy_pictures(path, part) == 0:
            raise VideoError(f"{path}: has no whole picture")
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    except (av.error.FFmpegError, IndexError) as error:
        raise VideoError(f"{path}: has no whole picture ({reason_of(error)})") from error
    finally:
        part.unlink(missing_ok=True)


def _copy_pictures(source: Path, target: Path) -> int:
    """Copy the pictures into a file with the index at its front, and return their number."""
    number = 0
    with (
        open_media(source) as grown,
        av.open(f"file:{target}", "w", format="mp4", options={"movflags": "+faststart"}) as whole,
    ):
        stream = whole.add_stream_from_template(grown.streams.video[0])
        for packet in grown.demux(video=0):
            if packet.dts is not None:  # the last packet only flushes
                packet.stream = stream
                whole.mux(packet)
                number += 1
    return number

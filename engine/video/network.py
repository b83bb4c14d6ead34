"""Reads pictures of a network stream (RTSP, HTTP) with PyAV. Passwords never leave this module in a message."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final
from urllib.parse import urlsplit

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter

from stepscope.engine.errors import VideoError
from stepscope.engine.video.formats import FORMATS, input_options, limit_pixels
from stepscope.engine.video.images import Orientation, read_orientation, to_image
from stepscope.engine.video.packets import MP4, PacketReader, seconds_of, step_of
from stepscope.engine.video.track import read_pixel_aspect, reason_of

SCHEMES: Final = ("rtsp", "rtsps", "http", "https")
OPEN_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 10.0
_PROTOCOLS: Final = "rtsp,rtsps,rtp,srtp,udp,tcp,tls,http,https,httpproxy"
"""Without ``file``: a redirect must not read files of this machine."""
_PROBE_US: Final = "1000000"
"""Time to find the format of a camera, in microseconds; FFmpeg's default of 5 s delays the first picture."""
_CAMERA: Final = "mpjpeg"
_FORMATS: Final = (*FORMATS, "rtsp", _CAMERA, "mjpeg", "image2pipe", "jpeg_pipe")
"""Formats of ``FORMATS`` and those of cameras. No playlist: FFmpeg opens the playlists in one without a limit."""
_STUCK: Final = (
    "its index is behind its pictures, and the server cannot seek back to them; give an mp4 with its index in front "
    "(faststart), or a server with byte ranges"
)
MAX_URL_CHARS: Final = 2048
_SECRET_NAME: Final = re.compile("pass|pwd|token|key|secret|auth|sig", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkPicture:
    """One picture of a network stream."""

    time_s: float
    """Presentation time from the first picture, in seconds; by the average rate if the stream has none."""
    image: np.ndarray
    """uint8 [H, W, 3] RGB."""
    pixel_aspect: float
    """Width of a pixel divided by its height."""


def mask_password(text: str) -> str:
    """Return a text without the passwords of the URLs in it: user names, passwords and tokens become ``***``.

    Example: ``rtsp://user:pw@camera/1?token=x`` becomes ``rtsp://***@camera/1?token=***``. Texts of any length
    take linear time.
    """
    return "".join(_mask_secrets(_mask_users(word)) for word in re.split(r"(\s+)", text))


def _mask_users(word: str) -> str:
    """Mask what precedes the last ``@`` of each authority, which ends at a slash, a question mark or a hash."""
    first, *rest = word.split("://")
    masked = [first]
    for part in rest:
        authority = re.split("[/?#]", part, maxsplit=1)[0]
        _, at, host = authority.rpartition("@")
        masked.append(f"***@{host}{part[len(authority) :]}" if at else part)
    return "://".join(masked)


def _mask_secrets(word: str) -> str:
    """Mask the values of a query whose names hint at a secret; a value ends at the next ``&``."""
    first, *rest = re.split("([?&])", word)
    masked, is_secret = [first], False
    for sign, part in zip(rest[::2], rest[1::2], strict=True):
        if is_secret and sign == "?":
            continue
        name, equals, _ = part.partition("=")
        is_secret = bool(equals) and _SECRET_NAME.search(name) is not None
        masked.append(f"{sign}{name}=***" if is_secret else f"{sign}{part}")
    return "".join(masked)


def check_url(url: str) -> str:
    """Return a URL without surrounding space.

    Raises ``ValueError`` unless it is one of ``SCHEMES`` with a host, of at most ``MAX_URL_CHARS``.
    """
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        raise ValueError(f"the URL of a live source has at most {MAX_URL_CHARS} characters; got {len(url)}")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme.lower() in SCHEMES and bool(parts.hostname) and not re.search(r"\s", url)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError(
            f"a live source is a URL such as rtsp://camera.local/stream or http://host/video.mjpg; "
            f"got {mask_password(url)[:200]!r}"
        )
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStream:
    """An open network stream. Iterate over ``pictures`` once."""

    is_recorded: bool
    """Whether it is a file, of which the server or the header gives the length; otherwise it has no end."""
    pictures: Iterator[NetworkPicture]
    """The pictures; raises ``VideoError`` when the connection is lost."""


def open_url(url: str) -> NetworkStream:
    """Connect to a stream. Raises ``VideoError`` with one sentence, and ``ValueError`` as ``check_url`` does."""
    url = check_url(url)
    # without multiple_requests, FFmpeg seeks through connections that it asked the server to close
    options = input_options(protocols=_PROTOCOLS, formats=_FORMATS) | {"multiple_requests": "1"}
    if url.lower().startswith("rtsp"):  # without a buffer, a file over HTTP would lose its first picture
        options |= {"rtsp_transport": "tcp", "fflags": "nobuffer", "flags": "low_delay", "analyzeduration": _PROBE_US}
    try:
        container = av.open(url, timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S), options=options, metadata_errors="replace")
    except av.error.ArgumentError:  # FFmpeg's reason for a format that is not among ``_FORMATS``
        raise VideoError(
            f"{mask_password(url)}: is no video or camera, and playlists such as m3u8 are not opened; check the address"
        ) from None
    except (av.error.FFmpegError, OSError) as error:
        raise VideoError(
            f"{mask_password(url)}: cannot be opened ({reason_of(error)}); check address and camera"
        ) from None
    if not container.streams.video or container.streams.video[0].codec_context is None:
        container.close()
        raise VideoError(f"{mask_password(url)}: has no video stream that can be decoded; give the address of a video")
    limit_pixels(container)
    has_length = (container.duration or 0) > 0 or container.size > 0
    is_recorded = has_length and container.format.name != _CAMERA  # some cameras state a size
    return NetworkStream(is_recorded=is_recorded, pictures=_decode(container, url))


def _decode(container: InputContainer, url: str) -> Iterator[NetworkPicture]:
    stream, reformatter = container.streams.video[0], VideoReformatter()
    begin_s: float | None = None
    orientation: Orientation | None = None
    is_stuck = container.format.name == MP4 and stream.frames > 0  # as long as no picture is read
    try:
        frames = chain.from_iterable(packet.decode() for packet in PacketReader(container, stream))
        for number, frame in enumerate(frames):
            time_s = number * step_of(stream) if frame.pts is None else seconds_of(frame.pts, stream)
            begin_s = time_s if begin_s is None else begin_s
            orientation = read_orientation(frame) if orientation is None else orientation
            image, is_stuck = to_image(frame, reformatter, orientation), False
            aspect = read_pixel_aspect(stream, orientation)
            yield NetworkPicture(time_s=time_s - begin_s, image=image, pixel_aspect=aspect)
        if is_stuck:
            raise VideoError(f"{mask_password(url)}: {_STUCK}")
    except (av.error.FFmpegError, OSError) as error:
        reason = _STUCK if is_stuck and isinstance(error, OSError) else f"the connection was lost ({reason_of(error)})"
        raise VideoError(f"{mask_password(url)}: {reason}") from None
    finally:
        with suppress(av.error.FFmpegError, OSError):
            container.close()

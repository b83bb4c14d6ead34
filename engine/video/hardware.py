"""Hardware decoding with PyAV: a device that decodes videos, and its frames in the formats of the software decoder.

A device is named as torch names it, such as ``cuda:1``; an NVIDIA GPU decodes with NVDEC. Each open video has a
CUDA context of its own.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import av
import numpy as np
from av.codec.context import CodecContext
from av.codec.hwaccel import HWAccel, hwdevices_available
from av.container import InputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from stepscope.engine.config import HardwareDecoding
from stepscope.engine.errors import VideoError
from stepscope.engine.video.packets import DecodeError
from stepscope.engine.video.track import Track, open_media, reason_of

_SIZE: Final = 256
"""Height and width of the picture of ``check_hardware``, in pixels; NVDEC decodes none below 48 x 16."""


def find_decoding_device(hardware: HardwareDecoding, model_device: str) -> str:
    """Return the device that decodes beside a model: the model's own if it is of the kind, else the first; or cpu."""
    if hardware == "off":
        return "cpu"
    return model_device if model_device.partition(":")[0] == hardware else hardware


def check_hardware(hardware: HardwareDecoding, model_devices: Iterable[str]) -> None:
    """Decode a picture beside each model's device. Raises ``VideoError`` if one cannot, or PyAV lacks the kind."""
    if hardware == "off":
        return
    if hardware not in hwdevices_available():  # the kinds that FFmpeg was built with
        raise VideoError(
            f"--hardware-decoding {hardware} needs a build of PyAV with {hardware}, which this one is without; install "
            "av from PyPI, or omit the option"
        )
    for device in dict.fromkeys(find_decoding_device(hardware, name) for name in model_devices):
        reason = "no decoder for H.264"
        try:
            context = CodecContext.create("h264", "r", hwaccel=_make_hwaccel(device))
            assert isinstance(context, VideoCodecContext)
            if context.is_hwaccel and any(map(context.decode, [*_encode_picture(), None])):
                continue
        except (av.error.FFmpegError, OSError) as error:
            reason = reason_of(error)
        raise VideoError(
            f"--hardware-decoding {hardware}: no video can be decoded on {device} ({reason}); it needs an NVIDIA GPU "
            "and a driver with libcuda and libnvcuvid; or omit the option"
        )


def open_on_device(track: Track, device: str) -> InputContainer:
    """Open the file of a track to be decoded on a device. Raises ``DecodeError`` if that has no decoder for it."""
    try:
        container = open_media(track.path, hwaccel=_make_hwaccel(device))
    except (av.error.FFmpegError, OSError) as error:
        raise DecodeError(f"{device}: {reason_of(error)}") from error
    except RuntimeError as error:  # PyAV's, if no stream of the file can be decoded
        raise DecodeError(f"{device} does not decode {track.codec}") from error
    if not container.streams.video[track.stream_index].codec_context.is_hwaccel:
        container.close()
        raise DecodeError(f"{device} does not decode {track.codec}")
    return container


def to_software_format(frame: VideoFrame, track: Track, reformatter: VideoReformatter) -> VideoFrame:
    """Return a frame of a device in the pixel format of the software decoder, such as yuv420p for NVDEC's nv12.

    The samples are the same. Without this, FFmpeg's conversion to RGB rounds in other ways. Raises ``DecodeError``
    for a picture of a different size: devices do not crop on the left and at the top.
    """
    if {frame.width, frame.height} != {track.width, track.height}:  # the sides of a turned track are swapped
        raise DecodeError(f"the device gives pictures of {frame.width} x {frame.height} pixels")
    return reformatter.reformat(frame, format=track.pixel_format or None, threads=1)


def _make_hwaccel(device: str) -> HWAccel:
    kind, _, number = device.partition(":")
    return HWAccel(kind, device=number or None, allow_software_fallback=False)


def _encode_picture() -> "list[Packet[VideoStream]]":
    encoder = CodecContext.create("libx264", "w")
    assert isinstance(encoder, VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt, encoder.framerate = _SIZE, _SIZE, "yuv420p", Fraction(1)
    picture = VideoFrame.from_ndarray(np.zeros((_SIZE, _SIZE, 3), np.uint8), format="rgb24")
    return [*encoder.encode(picture), *encoder.encode(None)]

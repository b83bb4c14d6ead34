"""Converts decoded pictures to upright images with the colours of a standard display.

This is the one place that applies the display matrix of a file and maps HDR to the sRGB of a display. Pictures of
ordinary videos are converted by FFmpeg alone.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import cv2
import numpy as np
from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace, VideoReformatter

_PQ: Final = 16
_HLG: Final = 18
"""Transfer characteristics of HDR. **Source**: ITU-T H.273, table 3."""
_UNSPECIFIED: Final = 2
"""Unknown colour matrix. **Source**: ITU-T H.273, table 4."""
_WHITE_NITS: Final = 203.0
"""Luminance of white paper in HDR, in cd/m2; it becomes the white of the image. **Source**: ITU-R BT.2408, table 1."""
_HLG_PEAK_NITS: Final = 1000.0
"""Luminance of the display for which HLG's system gamma is 1.2. **Source**: ITU-R BT.2100, table 5."""
_BT2020_LUMA: Final = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
_TO_BT709: Final = {
    9: [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],  # BT.2020
    12: [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],  # P3 with the white D65
    1: np.eye(3).tolist(),  # BT.709
}
"""Matrices from linear RGB to that of BT.709, by H.273's colour primaries. **Source**: ITU-R BT.2407, annex 1."""
_STEPS: Final = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Orientation:
    """How a stored picture is displayed: transposed, then flipped."""

    is_transposed: bool = False
    """Whether rows become columns, so that height and width are swapped."""
    is_flipped_x: bool = False
    """Whether left and right are swapped, after the transposition."""
    is_flipped_y: bool = False
    """Whether top and bottom are swapped, after the transposition."""

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return a stored image [H, W, 3] as it is displayed, [W, H, 3] if it is transposed."""
        upright = image.swapaxes(0, 1) if self.is_transposed else image
        upright = upright[:: -1 if self.is_flipped_y else 1, :: -1 if self.is_flipped_x else 1]
        return np.ascontiguousarray(upright)

    def undo_rotation(self, image: np.ndarray) -> np.ndarray:
        """Return the stored image of one that a library has rotated, ignoring the mirror in the matrix.

        FFmpeg's angle comes from the first row of the matrix alone, so a horizontal mirror counts as 180 degrees.
        """
        quarter_turns = 2 if self.is_flipped_x else 0  # counterclockwise, as np.rot90 counts
        if self.is_transposed:
            quarter_turns = 1 if self.is_flipped_y else -1
        return np.rot90(image, -quarter_turns)


UPRIGHT: Final = Orientation()


def read_orientation(frame: VideoFrame) -> Orientation:
    """Return the orientation from the display matrix of a picture, rounded to quarter turns.

    A point (x, y) is displayed at (a x + c y, b x + d y). Example: a = 0, b = 1, c = -1, d = 0 turns clockwise by 90
    degrees: the top left corner moves to the top right. **Source**: ISO/IEC 14496-12, 8.3.2.

    Read it once per video: PyAV's ``side_data`` keeps its frame until the garbage collector runs.
    """
    side_data: Any = frame.side_data  # its stub has no types of side data as keys
    data = side_data.get(Type.DISPLAYMATRIX)
    if data is None:
        return UPRIGHT
    (a, b), (c, d) = np.frombuffer(bytes(data), np.int32).astype(np.int64).reshape(3, 3)[:2, :2]
    if abs(b) + abs(c) > abs(a) + abs(d):
        return Orientation(is_transposed=True, is_flipped_x=bool(c < 0), is_flipped_y=bool(b < 0))
    return Orientation(is_flipped_x=bool(a < 0), is_flipped_y=bool(d < 0))


def is_hdr(frame: VideoFrame) -> bool:
    """Return whether a picture is HDR with the transfer function PQ or HLG."""
    return frame.color_trc in (_PQ, _HLG)


def to_image(frame: VideoFrame, reformatter: VideoReformatter, orientation: Orientation) -> np.ndarray:
    """Return the image of a decoded picture, uint8 [H, W, 3] RGB, as the orientation displays it.

    Raises PyAV's ``FFmpegError`` or ``ValueError`` if it has none.
    """
    if is_hdr(frame):
        image = _to_standard_range(frame, reformatter)
    else:
        image = reformatter.reformat(frame, format="rgb24", threads=1).to_ndarray()
    return orientation.apply(image)


def _to_standard_range(frame: VideoFrame, reformatter: VideoReformatter) -> np.ndarray:
    """Return the image of an HDR picture in sRGB. Paper white becomes 255; brighter highlights are clipped.

    So an sRGB image that was graded into HDR by ITU-R BT.2408 (white at 203 cd/m2) comes back as it was.
    """
    colorspace = Colorspace.BT2020 if frame.colorspace == _UNSPECIFIED else None
    codes = reformatter.reformat(frame, format="rgb48le", src_colorspace=colorspace, threads=1).to_ndarray()
    light: Any = cv2.LUT(codes, _decode_transfer(frame.color_trc))
    if frame.color_trc == _HLG:  # from light in the scene to light on the display
        luma = cv2.transform(light, _BT2020_LUMA)
        light *= (cv2.pow(luma, 0.2) * (_HLG_PEAK_NITS / _WHITE_NITS))[..., None]
    matrix = np.array(_TO_BT709.get(frame.color_primaries, _TO_BT709[9]), np.float32)
    displayed = np.clip(cv2.transform(light, matrix), 0, 1)
    return np.asarray(cv2.LUT((displayed * (_STEPS - 1)).astype(np.uint16), _encode_srgb()))


@cache
def _decode_transfer(transfer: int) -> np.ndarray:
    """Return linear light by 16-bit code: for PQ as a multiple of paper white, for HLG in the scene, from 0 to 1.

    **Source**: ITU-R BT.2100, tables 4 and 5.
    """
    code = np.arange(_STEPS) / (_STEPS - 1)
    if transfer == _HLG:
        light = np.where(code <= 0.5, code**2 / 3, (np.exp((code - 0.55991073) / 0.17883277) + 0.28466892) / 12)
    else:
        power = code ** (32 / 2523)  # 1 / m2
        light = np.maximum(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)
        light = 10_000 / _WHITE_NITS * light ** (8192 / 1305)  # 1 / m1
    return light.astype(np.float32)


@cache
def _encode_srgb() -> np.ndarray:
    """Return sRGB's value from 0 to 255 by linear light in 16 bits. **Source**: IEC 61966-2-1."""
    light = np.arange(_STEPS) / (_STEPS - 1)
    value = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.round(255 * value).astype(np.uint8)

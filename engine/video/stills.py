"""Encodes single pictures, and gives those that people see square pixels and one size."""

from typing import Final

import cv2
import numpy as np

from stepscope.engine.errors import VideoError

_MAX_WIDTH: Final = 1280
"""Maximum width of a video that is written for people, in pixels."""


def make_square(image: np.ndarray, pixel_aspect: float) -> np.ndarray:
    """Return an image, uint8 [H, W, 3] RGB, with square pixels; ``pixel_aspect`` is the width of one by its height."""
    if pixel_aspect == 1:
        return image
    width = max(round(image.shape[1] * pixel_aspect), 1)
    interpolation = cv2.INTER_LINEAR if pixel_aspect > 1 else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, (width, image.shape[0]), interpolation=interpolation), np.uint8)


def video_size(height: float, width: float) -> tuple[int, int]:
    """Return the even (height, width) of a video of pictures with square pixels; wider ones are reduced."""
    scale = min(1.0, _MAX_WIDTH / width)
    return max(2, 2 * round(height * scale / 2)), max(2, 2 * round(width * scale / 2))


def fit_image(image: np.ndarray, size: tuple[int, int], *, pixel_aspect: float = 1.0) -> np.ndarray:
    """Return an image, uint8 [H, W, 3] RGB, in the ``video_size`` of the first; bars fill up other proportions."""
    height, width = image.shape[0], image.shape[1] * pixel_aspect
    inside = size
    if video_size(height, width) != size:
        scale = min(size[0] / height, size[1] / width)
        inside = max(1, round(height * scale)), max(1, round(width * scale))
    is_larger = inside[0] > height + 1 or inside[1] > image.shape[1] + 1
    interpolation = cv2.INTER_LINEAR if is_larger else cv2.INTER_AREA
    fitted = cv2.resize(image, inside[::-1], interpolation=interpolation).astype(np.uint8, copy=False)
    if inside == size:
        return fitted
    framed, top, left = np.zeros((*size, 3), np.uint8), (size[0] - inside[0]) // 2, (size[1] - inside[1]) // 2
    framed[top : top + inside[0], left : left + inside[1]] = fitted
    return framed


def encode_jpeg(image: np.ndarray, *, max_side: int) -> bytes:
    """Return an image, uint8 [H, W, 3] RGB, as JPEG; one with a longer side than ``max_side`` pixels is reduced."""
    height, width = image.shape[:2]
    if max(height, width) > max_side:
        scale = max_side / max(height, width)
        size = max(round(width * scale), 1), max(round(height * scale), 1)
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    is_done, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    if not is_done:
        raise VideoError("a picture cannot be encoded as JPEG")
    return data.tobytes()

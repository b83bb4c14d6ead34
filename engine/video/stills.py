"""Encodes single pictures, and gives those that people see square pixels."""

import cv2
import numpy as np

from stepscope.engine.errors import VideoError


def make_square(image: np.ndarray, pixel_aspect: float) -> np.ndarray:
    """Return an image, uint8 [H, W, 3] RGB, with square pixels; ``pixel_aspect`` is the width of one by its height."""
    if pixel_aspect == 1:
        return image
    width = max(round(image.shape[1] * pixel_aspect), 1)
    interpolation = cv2.INTER_LINEAR if pixel_aspect > 1 else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, (width, image.shape[0]), interpolation=interpolation), np.uint8)


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

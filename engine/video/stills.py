"""Encodes single pictures."""

import cv2
import numpy as np

from stepscope.engine.errors import VideoError


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

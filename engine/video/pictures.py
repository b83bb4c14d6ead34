"""Still pictures of a video for display."""

import cv2
import numpy as np

from stepscope.engine.errors import VideoError


def encode_jpeg(image: np.ndarray, *, max_width: int = 640) -> bytes:
    """Return an image, uint8 [H, W, 3] RGB, as a JPEG of at most ``max_width`` pixels."""
    height, width = image.shape[:2]
    if width > max_width:
        size = (max_width, max(1, round(height * max_width / width)))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    is_encoded, data = cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]))
    if not is_encoded:
        raise VideoError(f"a picture of {width} x {height} pixels cannot be encoded")
    return bytes(data)

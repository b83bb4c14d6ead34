"""Pictures that users and programs send: files to pixels, and pixels to the embeddings of a prompt."""

import io
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from engine.chat.worker import digest_features
from engine.model.checkpoint import Checkpoint
from engine.model.features.frame_encoder import encode_images

MAX_PICTURES: Final = 64
"""Maximum number of distinct pictures in a conversation."""
MAX_PIXELS: Final = 2**24
ENDINGS: Final = (".png", ".jpg", ".jpeg", ".webp")
"""Endings of picture files."""


def read_picture(content: bytes) -> NDArray[np.uint8]:
    """Return a PNG, JPEG or WebP file as RGB ``[H, W, 3]``.

    Raises:
        ValueError: An unknown or damaged file, or more than ``MAX_PIXELS``.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"a picture has at most {MAX_PIXELS} pixels; got {image.width} x {image.height}")
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError("a picture cannot be read; send PNG, JPEG or WebP") from error


def encode_pictures(
    checkpoint: Checkpoint, images: Sequence[NDArray[np.uint8]]
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Return the content digest of each picture, and the embeddings by digest."""
    encoded = list(encode_images(checkpoint, images)) if images else []
    digests = tuple(map(digest_features, encoded))
    return digests, dict(zip(digests, encoded, strict=True))


def check_num_pictures(number: int) -> None:
    """Raise ``ValueError`` if a conversation has too many different pictures."""
    if number > MAX_PICTURES:
        raise ValueError(f"a conversation has at most {MAX_PICTURES} pictures")

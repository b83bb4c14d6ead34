"""Pictures that users and programs send: files to pixels, and pixels to the embeddings of a prompt."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from stepscope.engine.chat.worker import name_picture
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import encode_images
from stepscope.engine.video.packets import MAX_SCANS, count_scans

MAX_PICTURES: Final = 64
MAX_PIXELS: Final = 2**24
MAX_ALL_PIXELS: Final = 2**28
"""Maximum number of pixels of all pictures of a message: 22 photos of 12 megapixels, which are decoded in seconds."""
MAX_PICTURE_BYTES: Final = 32 * 2**20
_JPEG_START: Final = b"\xff\xd8"
ENDINGS: Final = (".png", ".jpg", ".jpeg", ".webp")


def read_picture(content: bytes) -> NDArray[np.uint8]:
    """Return a PNG, JPEG or WebP file as RGB ``[H, W, 3]``.

    Raises:
        ValueError: An unknown or damaged file, or more than ``MAX_PIXELS`` or ``MAX_PICTURE_BYTES``.
    """
    with _open_picture(content) as image:
        return np.asarray(image.convert("RGB"))


def check_pictures(files: Sequence[Callable[[], bytes]]) -> None:
    """Raise ``ValueError`` for pictures of too many pixels together, and as ``read_picture``; none is decoded."""
    num_pixels = 0
    for read in files:
        with _open_picture(read()) as image:
            num_pixels += image.width * image.height
        if num_pixels > MAX_ALL_PIXELS:
            raise ValueError(
                f"the pictures of a message have at most {MAX_ALL_PIXELS} pixels together; send fewer or smaller ones"
            )


@contextmanager
def _open_picture(content: bytes) -> Iterator[Image.Image]:
    if len(content) > MAX_PICTURE_BYTES:
        raise ValueError(f"a picture file has at most {MAX_PICTURE_BYTES // 2**20} MiB; save it smaller")
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"a picture has at most {MAX_PIXELS} pixels; got {image.width} x {image.height}")
            if content.startswith(_JPEG_START) and count_scans(content) > MAX_SCANS:
                raise ValueError(f"a picture in JPEG has at most {MAX_SCANS} scans; save it again")
            yield image
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError("a picture cannot be read; send PNG, JPEG or WebP") from error


def encode_pictures(
    checkpoint: Checkpoint, files: Sequence[Callable[[], bytes]]
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Return the name of each picture, and the embeddings by name.

    Each of ``files`` returns the content of a picture file. One at a time is read and decoded, so that 64 need the
    memory of one. Raises as ``read_picture``.
    """
    names, features = [], {}
    for read in files:
        (encoded,) = encode_images(checkpoint, [read_picture(read())])
        name = name_picture(checkpoint.model, encoded)
        names.append(name)
        features[name] = encoded
    return tuple(names), features


def check_num_pictures(number: int) -> None:
    """Raise ``ValueError`` if a conversation has too many pictures; called before any is decoded."""
    if number > MAX_PICTURES:
        raise ValueError(f"a conversation has at most {MAX_PICTURES} pictures; got {number}")

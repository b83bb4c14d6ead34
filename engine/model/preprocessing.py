"""Image preprocessing for the vision tower: resize to its size and normalise, with OpenCV.

transformers' fast image processors need torchvision, which must not be installed.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Framing = Literal["stretch", "pad", "crop"]
"""How a frame gets another shape: stretched; fitted into it with black bars; or its centre cropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalization:
    """Image normalisation ``(pixel * scale - mean) / std`` per RGB channel, for pixels in 0..255."""

    scale: float = 1 / 255
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a value is not finite or a standard deviation is 0."""
        if not all(map(math.isfinite, (self.scale, *self.mean, *self.std))) or 0 in self.std:
            raise ValueError(f"scale, mean and std must be finite, and std not 0; got {self.describe()}")

    def describe(self) -> str:
        """Return all values as one line of text; equal lines mean equal normalisations."""
        mean, std = (" ".join(map(repr, values)) for values in (self.mean, self.std))
        return f"scale {self.scale!r}, mean {mean}, std {std}"


def normalize_images(
    images: Iterable[NDArray[np.uint8]], *, size: tuple[int, int], normalization: Normalization
) -> Tensor:
    """Bring RGB images ``[H, W, 3]`` to ``size``, rows by columns, and normalise them: ``[B, 3, rows, columns]``.

    **Source** of ``stretch``: Idefics3's image processor without image splitting.
    """
    resized = np.stack([resize_image(image, size=size) for image in images])
    rows = torch.from_numpy(resized).flatten(2).float()  # [B, rows, columns * 3]: subtracting from short rows is slow
    mean, std = (torch.tensor(values).repeat(size[1]) for values in (normalization.mean, normalization.std))
    rows.mul_(normalization.scale).sub_(mean).div_(std)
    return rows.view(-1, *size, 3).permute(0, 3, 1, 2)


def resize_image(image: NDArray[np.uint8], *, size: tuple[int, int], framing: Framing = "stretch") -> NDArray[np.uint8]:
    """Bring an RGB image ``[H, W, 3]`` to ``size``, rows by columns; an image of that size is returned unchanged.

    Worked example for a size of 384 x 384: an image of 640 x 360 is padded to 384 x 216 with bars of 84 rows, or
    resized to 683 x 384 and cropped by 149 columns on the left and 150 on the right.
    """
    (height, width), (rows, columns) = image.shape[:2], size
    if (height, width) == size:
        return image
    import cv2  # noqa: PLC0415 - streams of encoded frames run without it

    if framing == "stretch":
        return cv2.resize(image, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    scale = (min if framing == "pad" else max)(rows / height, columns / width)
    height, width = max(1, round(height * scale)), max(1, round(width * scale))
    resized = cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.uint8, copy=False)
    top, left = abs(rows - height) // 2, abs(columns - width) // 2
    if framing == "crop":
        return resized[top : top + rows, left : left + columns]
    framed = np.zeros((rows, columns, 3), np.uint8)
    framed[top : top + height, left : left + width] = resized
    return framed

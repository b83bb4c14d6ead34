"""Image preprocessing for the vision tower: resize to its square size and normalise, with OpenCV.

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
"""How a frame becomes square: stretched; its longest side fitted and black bars added; or its centre cropped."""


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
    images: Iterable[NDArray[np.uint8]], *, size: int, normalization: Normalization, framing: Framing = "stretch"
) -> Tensor:
    """Bring RGB images ``[H, W, 3]`` to ``size`` x ``size`` and normalise them: ``[B, 3, size, size]``.

    **Source** of ``stretch``: Idefics3's image processor without image splitting.
    """
    resized = np.stack([resize_image(image, size=size, framing=framing) for image in images])
    rows = torch.from_numpy(resized).flatten(2).float()  # [B, size, size * 3]: subtracting from short rows is slow
    mean, std = (torch.tensor(values).repeat(size) for values in (normalization.mean, normalization.std))
    rows.mul_(normalization.scale).sub_(mean).div_(std)
    return rows.view(-1, size, size, 3).permute(0, 3, 1, 2)


def resize_image(image: NDArray[np.uint8], *, size: int, framing: Framing = "stretch") -> NDArray[np.uint8]:
    """Bring an RGB image ``[H, W, 3]`` to ``size`` x ``size``; an image of that size is returned unchanged.

    Worked example for a size of 384: an image of 640 x 360 is padded to 384 x 216 with bars of 84 rows, or resized to
    683 x 384 and cropped by 149 columns on the left and 150 on the right.
    """
    height, width = image.shape[:2]
    if (height, width) == (size, size):
        return image
    import cv2  # noqa: PLC0415 - streams of encoded frames run without it

    if framing == "stretch":
        return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
    scale = size / (max(height, width) if framing == "pad" else min(height, width))
    height, width = max(1, round(height * scale)), max(1, round(width * scale))
    resized = cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.uint8, copy=False)
    top, left = abs(size - height) // 2, abs(size - width) // 2
    if framing == "crop":
        return resized[top : top + size, left : left + size]
    square = np.zeros((size, size, 3), np.uint8)
    square[top : top + height, left : left + width] = resized
    return square

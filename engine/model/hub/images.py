"""How a model takes a frame: its size, its patches, and the text that its processor writes around it."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.hub.families import FAMILIES


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFormat:
    """How frames become the inputs of a vision tower. Digests of encoders have all fields."""

    model_type: str
    is_video: bool = False
    opening: str = ""
    closing: str = ""
    side: int = 0
    """Side of the square image, in pixels; 0 for a model that takes images of any size."""
    pixels: int = 0
    """Most pixels of an image of any size."""
    min_pixels: int = 0
    """Fewest pixels of such an image, at most ``pixels``."""
    patch: int = 0
    """Side of a patch, for a tower that takes a list of patches; 0 for one that takes images."""
    merge: int = 1
    """Patches per side that become one token."""
    num_pictures: int = 1
    """Pictures of a patch: a tower for videos gets the frame twice."""
    processing: str = ""
    """How the image processor makes the pixels; equal texts mean equal pixels."""

    @property
    def block(self) -> int:
        """Side of a token of an image of any size, in pixels."""
        return self.patch * self.merge

    @property
    def max_tokens(self) -> int:
        """Most tokens of an image of any size; 0 for a model with one size."""
        return 0 if self.side else self.pixels // self.block**2

    def fit(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of pixels to which a picture is resized.

        A picture keeps its aspect as far as multiples of ``block`` permit, and is enlarged only to the next one or to
        ``min_pixels``. Examples for blocks of 28 and 3,136 to 50,176 pixels: 720 x 1280 becomes 168 x 280, and 20 x 30
        becomes 56 x 84.

        **Source**: ``smart_resize`` of Qwen2-VL's image processor, but never above ``pixels``.
        """
        if self.side:
            return self.side, self.side
        block, most = self.block, self.max_tokens
        rows, columns = (max(1, round(side / block)) for side in (height, width))
        if rows * columns * block**2 < self.min_pixels:
            beta = math.sqrt(self.min_pixels / (height * width))
            rows, columns = (math.ceil(side * beta / block) for side in (height, width))
        if rows * columns > most:
            beta = math.sqrt(height * width / self.pixels)  # rounded as the source does: 96 x 96 is 2 x 2 of 28
            rows, columns = (max(1, math.floor(side / beta / block)) for side in (height, width))
            rows, columns = min(rows, most), min(columns, most)  # beside a side of one block
        return rows * block, columns * block

    def prepare(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return the arguments of ``get_image_features`` for normalised images ``[B, 3, H, W]``.

        Those of a frame as a video are for ``get_video_features``.

        Patches are ordered by blocks of ``merge`` x ``merge``, ``[B * rows * columns, 3 * num_pictures * patch *
        patch]``.
        """
        if self.is_video:
            return {"pixel_values": pixels[:, None]}
        if not self.patch:
            return {"pixel_values": pixels}
        rows, columns = (side // self.patch for side in pixels.shape[2:])
        per_row, per_column = ((count // self.merge, self.merge, self.patch) for count in (columns, rows))
        patches = pixels.unflatten(3, per_row).unflatten(2, per_column)  # [B, 3, gh, mh, ph, gw, mw, pw]
        patches = patches.permute(0, 2, 5, 3, 6, 1, 4, 7)  # [B, gh, gw, mh, mw, 3, ph, pw]
        patches = patches.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, self.num_pictures, -1, -1)
        grid = pixels.new_tensor([[1, rows, columns]]).long().expand(len(pixels), 3)
        return {"pixel_values": patches.flatten(5).flatten(0, 4), "image_grid_thw": grid}


def read_format(config: Any, frame_pixels: int | None) -> FrameFormat:
    """Return the format of a model's configuration, whose type is one of ``FAMILIES``.

    ``frame_pixels`` are the most pixels of an image of any size; None for a model with one size. Raises
    ``CheckpointError`` if they are too few for a token.
    """
    family = FAMILIES[str(config.model_type)]
    kept = {name: getattr(family, name) for name in ("model_type", "is_video", "opening", "closing")}
    vision = config.vision_config
    if frame_pixels is None:
        side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
        return FrameFormat(**kept, side=side)
    frame_format = FrameFormat(
        **kept,
        pixels=frame_pixels,
        patch=vision.patch_size,
        merge=vision.spatial_merge_size,
        num_pictures=vision.temporal_patch_size,
    )
    if not frame_format.max_tokens:
        raise CheckpointError(
            f"--frame-pixels must be at least {frame_format.block**2}, a token of this model; got {frame_format.pixels}"
        )
    return frame_format

"""Frames as the published image processor prepares them, up to the normalisation."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers.image_transforms import resize
from transformers.image_utils import ChannelDimension

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.image_processors import find_normalization, load_image_processor, read_image_settings

_TILED = ("idefics3", "smolvlm")


class FrameProcessor:
    """Brings frames to the size that a tower takes, with the image processor of its folder.

    A frame is one picture: it is not cut into tiles. A tower with images of one size gets that ``side``, else 0.

    Raises:
        CheckpointError: The processor is missing, or cannot be used.
    """

    def __init__(self, folder: Path, model_type: str, *, side: int, is_video: bool) -> None:
        self._processor: Any = load_image_processor(folder, is_video=is_video)
        self.normalization = find_normalization(self._processor, folder)
        self._options = _find_options(self._processor, model_type, side)
        self.description = json.dumps([str(self._processor.resample), self._options], default=str)
        """All that decides the pixels of a frame beside its size and normalisation; equal lines mean equal pixels."""
        if side:
            _warn_of_size(folder, read_image_settings(folder, is_video=is_video), side)
        try:
            self.resize(np.zeros((48, 64, 3), np.uint8), (side or 28, side or 28))
        except Exception as error:  # transformers and PIL raise many types of exception for invalid settings
            raise CheckpointError(f"{folder} has invalid image settings: {first_line(error)}; correct them") from error

    def resize(self, image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return an RGB image ``[H, W, 3]`` in ``size``, rows by columns, which is that of the tower if it has one."""
        if not self._options:
            resized: NDArray[np.uint8] = resize(
                image,
                size,
                resample=self._processor.resample,
                data_format=ChannelDimension.LAST,
                input_data_format=ChannelDimension.LAST,
            )
            return resized
        options = {**self._options, "do_resize": True, "do_rescale": False, "do_normalize": False}
        pixels = self._processor(images=image, input_data_format=ChannelDimension.LAST, **options)["pixel_values"]
        return np.ascontiguousarray(np.asarray(pixels, np.uint8).reshape(3, *size).transpose(1, 2, 0))


def _find_options(processor: Any, model_type: str, side: int) -> dict[str, Any]:
    """Return the options of a call that makes one square image; none where a frame is only stretched."""
    if model_type in _TILED:
        return {
            "size": _plain(processor.size),
            "max_image_size": {"longest_edge": side},
            "do_image_splitting": False,
            "do_pad": False,
        }
    is_padded = bool(getattr(processor, "do_pad", False)) and hasattr(processor, "pad_to_square")
    if model_type != "llava" or not (processor.do_center_crop or is_padded):
        return {}
    size = _plain(processor.size)
    if min(size.values()) < side:  # else a crop would have a black border
        size = {"shortest_edge": side}
    square = {"height": side, "width": side}
    return {"size": size, "crop_size": square, "do_center_crop": True, "do_pad": is_padded}


def _plain(size: Any) -> dict[str, int]:
    """Return the edges of a size that are set."""
    return {name: value for name, value in dict(size).items() if value}


def _warn_of_size(folder: Path, settings: dict[str, Any], side: int) -> None:
    """Warn if the processor of a tower with one size of images, ``side``, prepares them in another."""
    size = settings.get("crop_size") or settings.get("max_image_size") or settings.get("size")  # the last step wins
    sides = size.values() if isinstance(size, dict) else (size,)
    others = sorted({other for other in sides if isinstance(other, int) and other != side})
    if others:
        warnings.warn(
            f"the processor of {folder} takes images of {others[0]} pixels, its vision tower of {side}; frames have "
            f"{side}, so features differ from those of the processor",
            stacklevel=2,
        )

"""The image settings of a checkpoint folder, and the image processor of transformers that they describe.

Settings that a folder leaves out are those of its processor's class. It works with PIL: torchvision must not be
installed. transformers, which takes seconds to import, is imported only where a processor is needed.
"""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import read_object
from stepscope.engine.model.preprocessing import Normalization

PROCESSOR_FILES: Final = ("processor_config.json", "video_preprocessor_config.json", "preprocessor_config.json")
Resizing = Literal["stretch", "crop", "tile"]
"""How a published processor brings an image to one size: stretched, its centre cropped, or as its one tile."""
_VALUES: Final = ("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "resample")

_LIMITS: Final = (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge"))


def read_image_settings(folder: Path, *, is_video: bool = False) -> dict[str, Any]:
    """Read the settings of the image processor, or of the one for videos. Raises ``CheckpointError`` without any.

    **Source**: ``get_image_processor_dict`` and ``get_video_processor_dict`` of transformers 5.23: the entry of
    ``processor_config.json``, which transformers 5 writes, wins.
    """
    name, (first, *others) = "video_processor" if is_video else "image_processor", PROCESSOR_FILES
    settings: Any = read_object(folder / first).get(name)
    for file in others if is_video else others[1:]:
        if settings is None and (folder / file).exists():
            settings = read_object(folder / file)
    if not isinstance(settings, dict):
        raise CheckpointError(
            f"{folder / others[1]} is missing, and {first} has no {name}; one of them holds the image normalisation; "
            "add it"
        )
    return settings


def read_pixel_limits(folder: Path) -> tuple[float, float]:
    """Return the fewest and the most pixels that a processor for images of any size names; else 0 and infinity."""
    settings = read_image_settings(folder)
    size = settings.get("size")
    edges = {**(size if isinstance(size, dict) else {}), **settings}
    fewest, most = (edges.get(old) or edges.get(new) for old, new in _LIMITS)
    if not isinstance(fewest or 0, int) or not isinstance(most or 0, int):
        raise CheckpointError(f"the image settings of {folder} have no valid numbers of pixels; correct them")
    return fewest or 0, most or math.inf


def load_image_processor(folder: Path, *, is_video: bool = False) -> Any:
    """Load the published image processor, for videos with the values of the one for videos.

    Raises ``CheckpointError`` if there is none, or if its settings are invalid.
    """
    from transformers import AutoConfig, AutoImageProcessor  # noqa: PLC0415 - takes seconds to import

    settings = read_image_settings(folder, is_video=is_video)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)  # its type counts for an unknown class
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil", trust_remote_code=False, config=config)
        return type(processor)(**{key: settings.get(key) for key in _VALUES}) if is_video else processor
    except Exception as error:  # transformers raises many types of exception for invalid settings
        raise CheckpointError(f"{folder} has no image processor that can be used: {first_line(error)}") from error


def read_normalization(folder: Path, processor: Any = None) -> Normalization:
    """Return the image normalisation of a folder, or of its loaded processor."""
    values: Mapping[str, Any] = read_image_settings(folder) if processor is None else vars(processor)
    if any(values.get(name) is None for name in ("rescale_factor", "image_mean", "image_std")):
        values = vars(load_image_processor(folder))
    is_normalized = values.get("do_normalize") is not False
    try:
        return Normalization(
            scale=1.0 if values.get("do_rescale") is False else float(values["rescale_factor"]),
            mean=_three(values["image_mean"] if is_normalized else 0),
            std=_three(values["image_std"] if is_normalized else 1),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{folder} has no valid image normalisation: {error}") from error


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in ([values] * 3 if isinstance(values, int | float) else values))
    return red, green, blue


class FrameProcessor:
    """Brings frames to the size of a tower, with the published image processor; a frame is never cut into tiles.

    ``side`` is that of a tower with images of one size, else 0. Raises ``CheckpointError`` for invalid settings.
    """

    def __init__(self, folder: Path, *, side: int, is_video: bool, resizing: Resizing) -> None:
        from transformers.image_transforms import resize  # noqa: PLC0415 - takes seconds to import

        self._stretch, self._options = resize, dict[str, Any]()
        self.processor = processor = load_image_processor(folder, is_video=is_video)
        self.normalization = read_normalization(folder, processor)
        size = {name: edge for name, edge in dict(processor.size).items() if edge}
        self.min_pixels = size.get("shortest_edge", 0)
        if resizing == "tile":
            self._options = {"size": size, "max_image_size": {"longest_edge": side}, "do_image_splitting": False}
        elif resizing == "crop" and (processor.do_center_crop or processor.do_pad):
            size = size if min(size.values()) >= side else {"shortest_edge": side}  # a crop gets no black border
            self._options = {"size": size, "crop_size": {"height": side, "width": side}, "do_center_crop": True}
        settings = read_image_settings(folder, is_video=is_video)
        last = settings.get("crop_size") or settings.get("max_image_size") or settings.get("size")  # the last step wins
        sides = {*(last.values() if isinstance(last, dict) else [last])} - {side, None}
        if side and sides:
            warnings.warn(
                f"the processor of {folder} takes images of {sides.pop()} pixels, its vision tower of {side}; frames "
                f"have {side}, so features differ from those of the processor",
                stacklevel=2,
            )
        try:
            self.resize(np.zeros((48, 64, 3), np.uint8), (side or 28, side or 28))
        except Exception as error:  # transformers and PIL raise many types of exception for invalid settings
            raise CheckpointError(f"{folder} has invalid image settings: {first_line(error)}; correct them") from error

    def resize(self, image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
        """Bring an RGB image ``[H, W, 3]`` to ``size``, rows by columns: that of the tower if it has one."""
        layout: dict[str, Any] = {"input_data_format": "channels_last"}
        if not self._options:
            return np.asarray(self._stretch(image, size, resample=self.processor.resample, **layout))
        steps = {"do_resize": True, "do_rescale": False, "do_normalize": False}
        pixels = self.processor(images=image, **self._options, **steps, **layout)["pixel_values"]
        return np.ascontiguousarray(np.asarray(pixels, np.uint8).reshape(3, *size).transpose(1, 2, 0))

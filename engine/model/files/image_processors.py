"""The image settings of a checkpoint folder, and the image processor of transformers that they describe.

Settings that a folder leaves out are those of its processor's class. The processor works with PIL: torchvision must not
be installed.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import read_object
from stepscope.engine.model.preprocessing import Normalization

PROCESSOR_FILE: Final = "processor_config.json"
IMAGE_FILE: Final = "preprocessor_config.json"
PROCESSOR_FILES: Final = (PROCESSOR_FILE, IMAGE_FILE, "video_preprocessor_config.json")
_VALUES: Final = ("do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std", "resample")


def read_image_settings(folder: Path, *, is_video: bool = False) -> dict[str, Any]:
    """Read the settings of the image processor, or of the one for videos.

    The entry of ``processor_config.json`` wins, in which transformers 5 saves them, then ``preprocessor_config.json``;
    for videos ``video_preprocessor_config.json`` comes between. Raises ``CheckpointError`` if the folder has none.

    **Source**: ``get_image_processor_dict`` and ``get_video_processor_dict`` of transformers 5.23.
    """
    name = "video_processor" if is_video else "image_processor"
    nested = read_object(folder / PROCESSOR_FILE).get(name)
    if nested is not None:
        if not isinstance(nested, dict):
            raise CheckpointError(f"{folder / PROCESSOR_FILE}: {name} must be an object; download it again")
        return nested
    for file in PROCESSOR_FILES[:0:-1] if is_video else (IMAGE_FILE,):
        if (folder / file).is_file():
            return read_object(folder / file)
    raise CheckpointError(
        f"{folder / IMAGE_FILE} is missing, and {PROCESSOR_FILE} has no {name}; one of them holds the image "
        "normalisation; add it"
    )


def read_pixel_limits(folder: Path) -> tuple[int, float]:
    """Return the fewest and the most pixels of an image, for a processor that takes images of any size.

    Without limits they are 0 and infinity; those of the class are wider than any that StepScope sets.
    """
    settings = read_image_settings(folder)
    size = settings.get("size")
    edges = size if isinstance(size, dict) else {}
    limits = (
        settings.get("min_pixels") or edges.get("shortest_edge") or 0,
        settings.get("max_pixels") or edges.get("longest_edge") or math.inf,
    )
    if not all(isinstance(limit, int | float) and limit >= 0 for limit in limits):
        raise CheckpointError(f"{folder} has image settings whose limits are no numbers of pixels; correct them")
    return limits


def load_image_processor(folder: Path, *, is_video: bool = False) -> Any:
    """Load the published image processor, for videos with the values of the processor of videos.

    Raises ``CheckpointError`` if there is none, or if its settings are invalid.
    """
    from transformers import AutoConfig, AutoImageProcessor  # noqa: PLC0415 - takes seconds to import

    settings = read_image_settings(folder, is_video=is_video)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)  # whose type counts for an unknown class
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil", trust_remote_code=False, config=config)
        if is_video:
            processor = type(processor)(**{name: settings[name] for name in _VALUES if name in settings})
    except Exception as error:  # transformers raises many types of exception for invalid settings
        raise CheckpointError(f"{folder} has no image processor that can be used: {first_line(error)}") from error
    return processor


def read_normalization(folder: Path) -> Normalization:
    """Read the image normalisation of a folder; a missing value is that of its processor's class."""
    values = read_image_settings(folder)
    if any(values.get(name) is None for name in ("rescale_factor", "image_mean", "image_std")):
        return find_normalization(load_image_processor(folder), folder)
    return find_normalization(values, folder)


def find_normalization(processor: Any, folder: Path) -> Normalization:
    """Return the normalisation of an image processor, or of its complete settings."""

    def get(name: str) -> Any:
        return processor.get(name) if isinstance(processor, Mapping) else getattr(processor, name)

    is_normalized, is_scaled = (get(name) is not False for name in ("do_normalize", "do_rescale"))
    try:
        return Normalization(
            scale=float(get("rescale_factor")) if is_scaled else 1.0,
            mean=_three(get("image_mean")) if is_normalized else (0.0, 0.0, 0.0),
            std=_three(get("image_std")) if is_normalized else (1.0, 1.0, 1.0),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{folder} has no valid image normalisation: {error}") from error


def _three(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in ([values] * 3 if isinstance(values, int | float) else values))
    return red, green, blue

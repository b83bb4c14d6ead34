"""Loads an image-text model of the hub from its folder, in safetensors only and without code of the folder."""

import warnings
from pathlib import Path
from typing import Final

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from stepscope.engine.config import Quantization
from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import read_object
from stepscope.engine.model.files.loading import load_complete, load_tokenizer, quantization_options
from stepscope.engine.model.hub.images import read_format
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt

_VISION: Final = ("visual", "vision_tower", "vision_model", "multi_modal_projector", "connector")
_UNQUANTIZED: Final = (*(f"model.{name}" for name in _VISION), "lm_head")
"""Modules that keep their numbers under ``--quantize``: all but the text model."""


def load_hub_model(
    folder: Path,
    dtype: torch.dtype,
    device: torch.device,
    *,
    quantize: Quantization,
    frame_pixels: int | None,
    adapter: Path | None = None,
) -> tuple[HubModel, HubPrompt]:
    """Load a model to a device, with an adapter merged into its weights, and its prompt.

    Frames have at most ``frame_pixels``. Raises ``CheckpointError`` with one line for a part that cannot be used.
    """
    options = quantization_options(quantize, dtype, device, skip=_UNQUANTIZED)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many types of exception for an invalid config
        raise CheckpointError(f"{folder} has no configuration that can be read: {first_line(error)}") from error
    frame_format = read_format(config, frame_pixels)
    _compare_size(folder, frame_format.side)
    text = config.get_text_config()
    windowed = sorted({*(getattr(text, "layer_types", None) or ())} - {"full_attention"})
    if windowed:
        raise CheckpointError(
            f"{folder}: its decoder has layers of {', '.join(windowed)}, whose states cannot be cropped; choose a "
            "model whose layers all keep keys and values"
        )
    image_id = config.video_token_id if frame_format.is_video else config.image_token_id
    prompt = HubPrompt(load_tokenizer(folder), image_id=image_id, frame_format=frame_format)
    vlm = load_complete(AutoModelForImageTextToText, folder, dtype, config=config, **options)
    if adapter is not None:
        from stepscope.engine.model.files.adapters import merge_adapter  # noqa: PLC0415 - peft takes seconds to import

        vlm = merge_adapter(vlm, adapter)
    vlm = vlm.eval().requires_grad_(requires_grad=False)
    if not options:
        vlm.to(device)  # a quantised model is on its device, and must not be moved
    model = HubModel(vlm, frame_format=frame_format, opening=prompt.opening, closing=prompt.closing)
    return model, prompt


def _compare_size(folder: Path, side: int) -> None:
    """Warn if the processor of a tower with one size of images, ``side`` (else 0), prepares them in another."""
    values = read_object(folder / "preprocessor_config.json")
    size = values.get("crop_size") or values.get("max_image_size") or values.get("size")  # the last step wins
    sides = size.values() if isinstance(size, dict) else (size,)
    others = sorted({other for other in sides if isinstance(other, int) and other != side})
    if side and others:
        warnings.warn(
            f"the processor of {folder} takes images of {others[0]} pixels, its vision tower of {side}; frames have "
            f"{side}, so features differ from those of the processor",
            stacklevel=2,
        )

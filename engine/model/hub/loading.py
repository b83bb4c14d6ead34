"""Loads an image-text model of the hub from its folder, in safetensors only and without code of the folder."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from stepscope.engine.config import Quantization
from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import check_weights
from stepscope.engine.model.files.generation import follow_generation
from stepscope.engine.model.files.image_processors import FrameProcessor
from stepscope.engine.model.files.loading import load_complete, load_tokenizer, quantization_options
from stepscope.engine.model.hub.families import FAMILIES
from stepscope.engine.model.hub.images import FrameFormat, read_format
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

    All other files are read before the weights. Frames have at most ``frame_pixels``. Raises ``CheckpointError`` with
    one line for a part that cannot be used.
    """
    options = quantization_options(quantize, dtype, device, skip=_UNQUANTIZED)
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many types of exception for an invalid config
        raise CheckpointError(f"{folder} has no configuration that can be read: {first_line(error)}") from error
    frame_format, processor = _read_frames(adapter or folder, config, frame_pixels)
    text = config.get_text_config()
    windowed = sorted({*(getattr(text, "layer_types", None) or ())} - {"full_attention"})
    if windowed:
        raise CheckpointError(
            f"{folder}: its decoder has layers of {', '.join(windowed)}, whose states cannot be cropped; choose a "
            "model whose layers all keep keys and values"
        )
    image_id = config.video_token_id if frame_format.is_video else config.image_token_id
    prompt = HubPrompt(load_tokenizer(folder), image_id=image_id, frame_format=frame_format)
    follow_generation(prompt, folder)
    check_weights(folder)
    vlm = load_complete(AutoModelForImageTextToText, folder, dtype, config=config, **options)
    if adapter is not None:
        from stepscope.engine.model.files.adapters import merge_adapter  # noqa: PLC0415 - peft takes seconds to import

        vlm = merge_adapter(vlm, adapter)
    vlm = vlm.eval().requires_grad_(requires_grad=False)
    if not options:
        vlm.to(device)  # a quantised model is on its device, and must not be moved
    model = HubModel(
        vlm, frame_format=frame_format, opening=prompt.opening, closing=prompt.closing, processor=processor
    )
    return model, prompt


def _read_frames(folder: Path, config: Any, frame_pixels: int | None) -> tuple[FrameFormat, FrameProcessor]:
    """Return the format of frames, and the image processor in a folder, which prepares them."""
    frames = read_format(config, frame_pixels)
    resizing = FAMILIES[frames.model_type].resizing
    processor = FrameProcessor(folder, side=frames.side, is_video=frames.is_video, resizing=resizing)
    fewest = 0 if frames.side else processor.min_pixels
    if fewest > frames.pixels:
        warnings.warn(
            f"frames have at most {frames.pixels} pixels, but the image processor of {folder} makes none below "
            f"{fewest}; the model was not trained on such frames",
            stacklevel=2,
        )
    return replace(frames, min_pixels=min(fewest, frames.pixels), processing=str(processor.processor)), processor

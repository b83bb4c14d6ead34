"""Weights in 8 or 4 bits, by bitsandbytes."""

import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from stepscope.engine.config import Quantization
from stepscope.engine.errors import CheckpointError


def quantization_options(
    quantize: Quantization, dtype: torch.dtype, device: torch.device, *, skip: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the options of ``from_pretrained`` that load a model in fewer bits to a device; none for ``none``.

    Modules named in ``skip`` keep their numbers; by default transformers skips the output embeddings. Raises
    ``CheckpointError`` without bitsandbytes.
    """
    if quantize == "none":
        return {}
    if importlib.util.find_spec("bitsandbytes") is None:
        raise CheckpointError(f"--quantize {quantize} needs bitsandbytes; install it with pip install bitsandbytes")
    config = BitsAndBytesConfig(
        load_in_8bit=quantize == "8bit",
        load_in_4bit=quantize == "4bit",
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=None if skip is None else list(skip),
    )
    return {"quantization_config": config, "device_map": {"": device}}

"""LoRA adapters: a checkpoint folder that holds a small change of another one, merged into its weights when it loads.

Such a folder has ``adapter_config.json`` and ``adapter_model.safetensors`` as ``peft`` writes them, and no
``model*.safetensors``; ``base_model_name_or_path`` names its base, a folder (relative to this one) or a hub id.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from torch import Tensor
from transformers import PreTrainedModel

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import ADAPTER_FILE, write_tensors

M = TypeVar("M", bound=PreTrainedModel)
_TARGETS = r".*(text_model|language_model)\.layers\.\d+\.(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)"
_TOKEN_PART = "token_adapter"


def add_adapter(vlm: PreTrainedModel, *, rank: int, base: str, new_tokens: tuple[int, ...] = ()) -> PeftModel:
    """Add a LoRA adapter to all linear layers of the text model, in place; only the adapter requires a gradient.

    ``base`` is the recorded name of the base, a folder or a hub id. The embeddings of ``new_tokens`` are trained too;
    the heads file stores them.
    """
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=_TARGETS,
        trainable_token_indices={"embed_tokens": list(new_tokens)} if new_tokens else None,
    )
    config.base_model_name_or_path = base
    with _quiet():
        return get_peft_model(vlm, config)


def save_adapter(folder: Path, adapter: PeftModel) -> None:
    """Write an adapter, without embeddings of new tokens."""
    tensors: dict[str, Tensor] = get_peft_model_state_dict(adapter, save_embedding_layers=False)
    write_tensors(
        folder / ADAPTER_FILE,
        {name: value for name, value in tensors.items() if _TOKEN_PART not in name and "trainable_tokens" not in name},
        {"format": "pt"},
    )
    config = adapter.peft_config["default"]
    trained, config.trainable_token_indices, config.inference_mode = config.trainable_token_indices, None, True
    config.save_pretrained(str(folder))
    config.trainable_token_indices, config.inference_mode = trained, False


def merge_adapter(vlm: M, folder: Path) -> M:
    """Return a model with the adapter of a folder merged into its weights. Raises ``CheckpointError``."""
    try:
        with torch.no_grad(), _quiet():
            merged: Any = PeftModel.from_pretrained(vlm, str(folder), use_safetensors=True).merge_and_unload()
    except Exception as error:  # peft raises many types of exception for an invalid adapter
        raise CheckpointError(f"the adapter {folder} does not fit its base: {first_line(error)}") from error
    model: M = merged
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore peft's use of a name that transformers has deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield

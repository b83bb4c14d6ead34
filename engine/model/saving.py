"""Writes checkpoint folders that ``engine.model.checkpoint`` reads."""

import copy
import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from stepscope.engine.io.files import atomic_write, replace_files
from stepscope.engine.model.files.checkpoint_files import HEADS_FILE, read_tensor, stored_tensors, write_tensors
from stepscope.engine.model.heads import save_heads
from stepscope.engine.model.preprocessing import Normalization
from stepscope.engine.model.smolvlm import StreamingModel


def save_model(
    folder: Path,
    model: StreamingModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    normalization: Normalization | None = None,
    silent_id: int | None = None,
    decision_policy: str | None = None,
    dtype: torch.dtype = torch.float16,
    base: Path | None = None,
) -> None:
    """Write a checkpoint folder that ``load_model`` reads: model, tokenizer with chat template, and heads file.

    All files replace earlier ones together, so that a kill or a full disk never leaves two models mixed.

    ``base`` is the folder of the checkpoint that the model was trained from. Tensors that require no gradient are
    copied from it byte for byte, so that features of its frozen encoder stay valid. Other tensors are written in the
    dtype that they have there, or in ``dtype`` if it lacks them. ``silent_id`` is the token that means silence,
    and ``decision_policy`` the policy of a model that is trained to decide by it.
    """
    is_tied = model.vlm.lm_head.weight is model.vlm.get_input_embeddings().weight
    state = _saved_state(model, dtype=dtype, base=base)
    if is_tied:
        state.pop("lm_head.weight", None)
    silent_token = None if silent_id is None else tokenizer.convert_ids_to_tokens(silent_id)
    config = copy.deepcopy(model.vlm.config)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = is_tied  # the actual state of the weights
    for part in (config, config.text_config, config.vision_config):
        part.dtype = state["model.text_model.embed_tokens.weight"].dtype
    with replace_files(folder) as new:
        write_tensors(new / "model.safetensors", state, {"format": "pt"})
        save_heads(new / HEADS_FILE, model, silent_token=silent_token, decision_policy=decision_policy)
        config.save_pretrained(new)
        save_inputs(new, model, tokenizer, normalization=normalization)


def save_inputs(
    folder: Path,
    model: StreamingModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    normalization: Normalization | None = None,
) -> None:
    """Write the files of a checkpoint folder that describe its inputs: tokenizer and image normalisation."""
    tokenizer.save_pretrained(folder)
    values = normalization or Normalization()
    preprocessing = {
        "image_processor_type": "SmolVLMImageProcessor",  # of transformers, whose images are to have the size of ours
        "do_image_splitting": False,
        "max_image_size": {"longest_edge": model.image_size},
        "rescale_factor": values.scale,
        "image_mean": list(values.mean),
        "image_std": list(values.std),
        "size": {"height": model.image_size, "width": model.image_size},
    }
    with atomic_write(folder / "preprocessor_config.json") as file:
        json.dump(preprocessing, file, indent=2)


def _saved_state(model: StreamingModel, *, dtype: torch.dtype, base: Path | None) -> dict[str, Tensor]:
    """Return the tensors of the model in the dtypes that ``save_model`` writes."""
    stored = {} if base is None else stored_tensors(base)
    trained = {name for name, parameter in model.vlm.named_parameters() if parameter.requires_grad}
    state = {}
    for name, tensor in model.vlm.state_dict().items():
        before = read_tensor(stored[name], name) if name in stored else None
        if before is None:
            state[name] = tensor.to(dtype)
        else:
            is_frozen = name not in trained and before.shape == tensor.shape
            state[name] = before if is_frozen else tensor.to(before.dtype)
    return state

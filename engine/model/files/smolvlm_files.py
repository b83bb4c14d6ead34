"""Loads the parts of a SmolVLM folder; raises ``CheckpointError`` with one line for a part that cannot be used."""

from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, SmolVLMConfig, SmolVLMForConditionalGeneration

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import read_object
from stepscope.engine.model.files.hub import LOAD_LOCK
from stepscope.engine.model.prompt import find_token


def load_vlm(folder: Path, dtype: torch.dtype) -> SmolVLMForConditionalGeneration:
    """Load the model of a SmolVLM folder."""
    kind = read_object(folder / "config.json").get("model_type")
    if kind != "smolvlm":
        raise CheckpointError(
            f"{folder} holds a {kind} model; StepScope streams SmolVLM, and adapters of VideoLLM-online and ProAssist"
        )
    try:
        config = SmolVLMConfig.from_pretrained(folder)
        with LOAD_LOCK:
            vlm, report = SmolVLMForConditionalGeneration.from_pretrained(
                folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True
            )
    except Exception as error:  # transformers raises many types of exception for an invalid config
        raise CheckpointError(f"{folder} cannot be loaded as SmolVLM: {first_line(error)}") from error
    missing = sorted(report["missing_keys"])  # tied output embeddings are not listed
    if missing == ["lm_head.weight"]:
        raise CheckpointError(
            f"{folder} lacks lm_head.weight, and its config.json does not tie the output to the input embeddings; "
            "download it again, or set tie_word_embeddings to true if they are tied"
        )
    if missing or report["mismatched_keys"]:
        names = missing or sorted(map(str, report["mismatched_keys"]))
        raise CheckpointError(f"{folder} has weights that are missing or of the wrong shape: {', '.join(names[:3])}")
    model: SmolVLMForConditionalGeneration = vlm
    return model


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a SmolVLM folder, with its chat template."""
    read_object(folder / "tokenizer_config.json")  # for an error that names this file
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # tokenizers raises no more specific type
        raise CheckpointError(f"{folder} has no tokenizer that can be loaded: {first_line(error)}") from error
    if not tokenizer.chat_template:  # older checkpoints store it with their processor
        tokenizer.chat_template = read_object(folder / "chat_template.json").get("chat_template")
        if not tokenizer.chat_template or not isinstance(tokenizer.chat_template, str):
            raise CheckpointError(
                f"{folder}: the tokenizer has no chat template, nor has chat_template.json; add chat_template.jinja"
            )
    return tokenizer


def find_silent_id(tokenizer: PreTrainedTokenizerBase, token: str | None) -> int | None:
    """Return the id of the token that a heads file names as silence; None if it names none."""
    token_id = None if token is None else find_token(tokenizer, token)
    if token is not None and token_id is None:
        raise CheckpointError(
            f"the heads file names {token!r} as the token that means silence, which the tokenizer lacks; "
            "the heads belong to a different model"
        )
    return token_id

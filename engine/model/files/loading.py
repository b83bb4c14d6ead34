"""Loads models and tokenizers by transformers; raises ``CheckpointError`` with one line for one that cannot be used."""

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoTokenizer, BitsAndBytesConfig, PreTrainedTokenizerBase, SmolVLMForConditionalGeneration
from transformers.utils import logging as transformers_logging

from stepscope.engine.config import Quantization
from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.bounded import forbid_panics
from stepscope.engine.model.devices import name_dtype
from stepscope.engine.model.files.checkpoint_files import read_object
from stepscope.engine.model.files.hub import LOAD_LOCK
from stepscope.engine.model.prompt import find_token

MAX_LAYERS: Final = 1000
TEMPLATE_FILES: Final = ("processor_config.json", "chat_template.json")
"""Files of a processor that may hold its chat template, the first one first."""
_COUNTS: Final = re.compile("(num|n)_(.+_)?(layers?|experts)|depth")
_SIZES: Final = re.compile(
    "(hidden|intermediate|out_hidden|vocab|patch|image|temporal_patch|spatial_merge|embed)_(size|dim)|head_dim|depth|"
    "num_(attention_heads|key_value_heads|hidden_layers|heads|channels)|max_position_embeddings|scale_factor"
)
"""Numbers of a configuration that are positive in every model; libraries divide by them."""


def load_complete(kind: Any, folder: Path, dtype: torch.dtype, **options: Any) -> Any:
    """Load a model of transformers from safetensors, with all its weights."""
    _check_sizes(folder / "config.json", read_object(folder / "config.json"))
    try:
        with LOAD_LOCK, loading_bar(folder, dtype):
            model, report = kind.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
            )
    except Exception as error:  # transformers raises many types of exception for an invalid folder
        raise CheckpointError(f"{folder} cannot be loaded: {first_line(error)}") from error
    missing = sorted(report["missing_keys"])  # tied output embeddings are not listed
    if missing == ["lm_head.weight"]:
        raise CheckpointError(
            f"{folder} lacks lm_head.weight, and its config.json does not tie the output to the input embeddings; "
            "download it again, or set tie_word_embeddings to true if they are tied"
        )
    if wrong := missing or sorted(map(str, report["mismatched_keys"])):
        raise CheckpointError(f"{folder} has weights that are missing or of the wrong shape: {', '.join(wrong[:3])}")
    return model


@contextmanager
def loading_bar(folder: Path, dtype: torch.dtype) -> Iterator[None]:
    """Draw a bar while transformers reads weights in the ``with`` block, if they take over 2 s."""
    size = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
    text = f"Loading {folder.name}, {size / 1e9:.1f} GB, as {name_dtype(dtype)}"

    def draw(factory: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return factory(*values, **{**options, "desc": text, "unit": " tensors", "delay": 2.0})

    before = transformers_logging.set_tqdm_hook(draw)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _check_sizes(path: Path, config: Mapping[str, Any]) -> None:
    """Raise ``CheckpointError`` for sizes below 1, and more layers or experts than any model: each is made first."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            _check_sizes(path, value)
        elif isinstance(value, int | float) and value > MAX_LAYERS and _COUNTS.fullmatch(name):
            raise CheckpointError(f"{path}: {name} must be at most {MAX_LAYERS}; download it again")
        elif isinstance(value, int | float) and not 1 <= value < 2**31 and _SIZES.fullmatch(name):
            raise CheckpointError(f"{path}: {name} must be from 1 to {2**31 - 1}, not {value}; download it again")


def load_vlm(folder: Path, dtype: torch.dtype) -> SmolVLMForConditionalGeneration:
    """Load the model of a SmolVLM folder."""
    kind = read_object(folder / "config.json").get("model_type")
    if kind != "smolvlm":
        raise CheckpointError(
            f"{folder} holds a {kind} model; StepScope streams SmolVLM, and adapters of VideoLLM-online and ProAssist"
        )
    vlm: SmolVLMForConditionalGeneration = load_complete(SmolVLMForConditionalGeneration, folder, dtype)
    return vlm


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # tokenizers raises no more specific type
        raise CheckpointError(f"{folder} has no tokenizer that can be loaded: {first_line(error)}") from error
    return forbid_panics(tokenizer)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder, with the chat template of its processor.

    That of the tokenizer itself may be for texts alone. Of several templates with names, ``default`` is taken.

    **Source**: ``ProcessorMixin.get_processor_dict`` of transformers; AutoTokenizer reads ``chat_template.jinja`` and
    ``additional_chat_templates``, and prefers them to ``tokenizer_config.json``.
    """
    read_object(folder / "tokenizer_config.json")  # for an error that names this file
    tokenizer = read_tokenizer(folder)
    stored = (read_object(folder / name).get("chat_template") for name in TEMPLATE_FILES)
    template: Any = next(filter(None, stored), tokenizer.chat_template)
    if isinstance(template, list):
        template = {part.get("name"): part.get("template") for part in template if isinstance(part, dict)}
    if isinstance(template, dict):
        template = template.get("default")
    if not template or not isinstance(template, str):
        raise CheckpointError(
            f"{folder} has no chat template, or several without one named default; add chat_template.jinja"
        )
    tokenizer.chat_template = template
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

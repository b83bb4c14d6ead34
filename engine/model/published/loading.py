"""Loads a published assistant: base model, vision tower and connector, with all adapters merged by ``peft``.

``peft`` does the merge, because it is the library that wrote the adapters: it knows its own variants of LoRA, of
scaling and of quantised layers. Adapters are read from safetensors here, and every tensor must have its place.
"""

import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, SiglipVisionConfig, SiglipVisionModel

from stepscope.engine.config import Quantization
from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import ADAPTER_CONFIG, ADAPTER_FILE, open_tensors, read_object
from stepscope.engine.model.files.loading import load_complete, quantization_options, read_tokenizer
from stepscope.engine.model.published.layout import HEAD, VIDEOLLM_ONLINE, Layout
from stepscope.engine.model.published.model import LlamaAssistant
from stepscope.engine.model.published.prompts import ProAssistPrompt, VideoLLMOnlinePrompt

_WRAPPED = re.compile(r"\.modules_to_save\.[^.]+(?=\.)")
_LORA_FIELDS = ("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora", "bias")


class _Tower(SiglipVisionModel):
    """SigLIP's vision tower; the folder also holds its text model."""

    _keys_to_ignore_on_load_unexpected = (r"^text_model\.", r"^logit_")


def load_assistant(
    layout: Layout, *, dtype: torch.dtype, device: torch.device, quantize: Quantization = "none"
) -> LlamaAssistant:
    """Load the model of a checkpoint to a device. Raises ``CheckpointError`` for parts that do not fit together."""
    options = quantization_options(quantize, dtype, device)
    name = layout.family.name
    _check_family(layout.tower, "vision tower", ("siglip", "siglip_vision_model"), f"{name} needs a SigLIP")
    tower: SiglipVisionModel = load_complete(_Tower, layout.tower, dtype)
    _check_family(layout.base, "base model", ("llama",), f"{name} needs a Llama")
    llama: LlamaForCausalLM = load_complete(LlamaForCausalLM, layout.base, dtype, **options)
    tensors = [_read_adapter(folder) for folder in layout.adapters]
    _check_widths(layout, tensors[-1], llama.config, tower)
    llama.add_module(layout.family.connector, make_connector(tower.config.hidden_size, llama.config.hidden_size, dtype))
    if layout.head_type is not None:
        llama.add_module(HEAD, _make_head(llama.config.hidden_size, layout.head_type))
    if not options:
        llama.to(device)
    for folder, adapter in zip(layout.adapters, tensors, strict=True):
        llama = _merge(llama, folder, adapter)
    connector, head = llama.get_submodule(layout.family.connector), None
    if layout.head_type is not None:
        head = llama.get_submodule(HEAD).float()
    model = LlamaAssistant(
        llama, tower, connector.to(dtype), grid_size=layout.grid_size, framing=layout.family.framing, head=head
    )
    for part in (tower, connector, head):
        if part is not None:
            part.to(device)  # a quantised text model is on its device, and must not be moved
    return model.eval().requires_grad_(requires_grad=False)


def load_prompt(layout: Layout) -> VideoLLMOnlinePrompt | ProAssistPrompt:
    """Load the tokenizer of the base model and build the prompt. Raises ``CheckpointError`` if they do not fit."""
    tokenizer = read_tokenizer(layout.base)
    if layout.family == VIDEOLLM_ONLINE:
        return VideoLLMOnlinePrompt(tokenizer, separator=layout.separator)
    return ProAssistPrompt(tokenizer)


def _check_family(folder: Path, part: str, kinds: Collection[str], needed: str) -> None:
    kind = read_object(folder / "config.json").get("model_type")
    if kind not in kinds:
        raise CheckpointError(f"the {part} {folder} is a {kind} model; {needed}")


def _read_adapter(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of an adapter; names of wrapped modules become those that PEFT saves today."""
    with open_tensors(folder / ADAPTER_FILE) as file:
        return {_WRAPPED.sub("", name): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _check_widths(layout: Layout, adapter: Mapping[str, Tensor], llama: LlamaConfig, tower: SiglipVisionModel) -> None:
    name = f"base_model.model.{layout.family.connector}.0.weight"
    if name not in adapter:
        raise CheckpointError(f"{layout.adapters[-1]} has no {name}; it is not a {layout.family.name} adapter")
    width, tower_width = adapter[name].shape
    if tower_width != tower.config.hidden_size:
        raise CheckpointError(
            f"the connector takes vision features of width {tower_width}, but the tower {layout.tower} gives "
            f"{tower.config.hidden_size}; use the tower of the checkpoint's training, such as {layout.family.tower}"
        )
    if width != llama.hidden_size:
        raise CheckpointError(
            f"the connector gives embeddings of width {width}, but the base model {layout.base} has "
            f"{llama.hidden_size}; use the base model of the checkpoint's training"
        )
    check_pixels(layout, tower.config)
    side = tower.config.image_size // tower.config.patch_size
    if layout.grid_size > side:
        raise CheckpointError(f"a frame has {layout.grid_size}x{layout.grid_size} tokens, but the tower {side}x{side}")


def check_pixels(layout: Layout, tower: SiglipVisionConfig) -> None:
    """Raise ``CheckpointError`` for a tower that reads pictures of another size than that of the training.

    SigLIP towers of one width exist for several sizes, and their hub ids end with the size in pixels.
    """
    named = re.search(r"-(\d+)$", layout.tower_name)
    is_published = tower.hidden_size == layout.family.tower_width
    if is_published and named is not None and tower.image_size != int(named[1]):
        raise CheckpointError(
            f"the tower {layout.tower} reads pictures of {tower.image_size} pixels, but the checkpoint was trained "
            f"with {layout.tower_name}, of {named[1]} pixels; use that tower"
        )


def make_connector(width: int, hidden: int, dtype: torch.dtype) -> nn.Module:
    """Return a connector from vision features of a width to embeddings of width ``hidden``, with random weights."""
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden)).to(dtype)


def _make_head(width: int, head_type: str) -> nn.Module:
    if head_type == "linear":
        return nn.Linear(width, 1)
    return nn.Sequential(nn.Linear(width, width // 2), nn.GELU(), nn.Linear(width // 2, 1))


def _merge(llama: LlamaForCausalLM, folder: Path, adapter: dict[str, Tensor]) -> LlamaForCausalLM:
    """Merge one adapter. Raises ``CheckpointError`` if a tensor is missing, superfluous or of a wrong shape."""
    wrapped = _wrap(llama, folder)
    wanted = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    different = sorted(set(wanted) ^ set(adapter))
    different += [name for name in wanted if name in adapter and wanted[name].shape != adapter[name].shape]
    if different:
        raise CheckpointError(
            f"{folder / ADAPTER_FILE} does not fit its settings and the base model; it differs in "
            f"{', '.join(different[:3])}"
        )
    set_peft_model_state_dict(wrapped, adapter)
    merged: LlamaForCausalLM = wrapped.merge_and_unload()
    return merged


def _wrap(llama: LlamaForCausalLM, folder: Path) -> PeftModel:
    """Add the untrained layers of an adapter to a model."""
    settings = read_object(folder / ADAPTER_CONFIG)
    try:
        config = LoraConfig(
            **{name: settings[name] for name in _LORA_FIELDS if settings.get(name) is not None},
            modules_to_save=settings.get("modules_to_save"),
            inference_mode=True,
            task_type="CAUSAL_LM",
        )
        with warnings.catch_warnings():  # PEFT asks transformers for an attribute by its former name
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            wrapped: PeftModel = get_peft_model(llama, config)
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / ADAPTER_CONFIG} does not fit the base model: {first_line(error)}") from error
    return wrapped

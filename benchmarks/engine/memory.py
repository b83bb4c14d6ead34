"""Memory of 8B models by dtype, without their weights: ``python -m benchmarks.engine.memory``.

Base model, vision tower, connector and adapter are built in their published sizes on the meta device, where a tensor
has a shape and no storage. The loader keeps tower and connector in the dtype of the model; bitsandbytes quantises the
linear layers of the text model but its output embeddings. The cache is that of a full context. Activations and the CUDA
context are not counted.
"""

import sys
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    SiglipVisionConfig,
    SiglipVisionModel,
)

from stepscope.engine.model.published.layout import PROASSIST, VIDEOLLM_ONLINE, Family
from stepscope.engine.model.published.loading import make_connector
from stepscope.engine.model.published.model import LlamaAssistant

GIB: Final = 2**30
LAYERS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of a decoder layer: LoRA adapts them, and the quantisation stores them in fewer bits."""
RANK: Final = 128
BYTES: Final = {"float32": 4.0, "bfloat16": 2.0}
QUANTIZED: Final = {"8bit": 1.0, "4bit": 0.5 + 4 / 64}
"""Bytes of a quantised weight; 4 bit has a float32 scale for 64 weights. The rest is in bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The published sizes of an assistant."""

    family: Family
    max_context: int
    """Tokens of the longest context that the system uses."""
    tower: SiglipVisionConfig
    grid_size: int


ONLINE: Final = Sizes(
    family=VIDEOLLM_ONLINE,
    max_context=8192,
    tower=SiglipVisionConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=384
    ),
    grid_size=3,
)
ASSIST: Final = Sizes(
    family=PROASSIST,
    max_context=4096,
    tower=SiglipVisionConfig(
        hidden_size=1152,
        intermediate_size=4304,
        num_hidden_layers=27,
        num_attention_heads=16,
        image_size=384,
        patch_size=14,
    ),
    grid_size=3,
)


def build(sizes: Sizes) -> LlamaAssistant:
    """Build an assistant on the meta device."""
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=sizes.max_context,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        llama, tower = LlamaForCausalLM(config), SiglipVisionModel(sizes.tower)
        connector = make_connector(sizes.tower.hidden_size, config.hidden_size, torch.float32)
    return LlamaAssistant(llama, tower, connector, grid_size=sizes.grid_size, framing=sizes.family.framing)


def count_adapter(model: LlamaAssistant) -> int:
    """Return the parameters of the published LoRA adapter: two matrices of rank 128 for each layer that it adapts."""
    layers = [*_linear_layers(model.text_model), model.lm_head]
    return sum(RANK * (layer.in_features + layer.out_features) for layer in layers)


def build_qwen() -> nn.Module:
    """Build Qwen3-VL-8B on the meta device."""
    text = {
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "tie_word_embeddings": False,
    }
    vision = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 4096}
    config = AutoConfig.for_model("qwen3_vl", text_config=text, vision_config=vision, tie_word_embeddings=False)
    with torch.device("meta"):
        model: nn.Module = AutoModelForImageTextToText.from_config(config)
    return model


def measure(model: nn.Module, decoder: PreTrainedModel, dtype: str, *, max_context: int) -> tuple[float, float]:
    """Return the GiB of the weights and of the cache of a full context, for a dtype or a quantisation."""
    rest = BYTES[dtype if dtype in BYTES else "bfloat16"]
    linear = sum(layer.weight.numel() for layer in _linear_layers(decoder))
    others = _count(model) - linear
    config = decoder.config
    cache = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * max_context
    weights = linear * QUANTIZED.get(dtype, rest) + others * rest
    return weights / GIB, cache * rest / GIB


def main() -> None:
    """Print the parameters of the parts, and the memory by dtype."""
    for sizes in (ONLINE, ASSIST):
        model = build(sizes)
        parts = {"text model": model.vlm, "vision tower": model.tower, "connector": model.connector}
        counts = ", ".join(f"{name} {_count(part) / 1e6:,.0f} M" for name, part in parts.items())
        adapter = count_adapter(model) / 1e6
        sys.stdout.write(f"{sizes.family.name}: {counts}; adapter {adapter:,.0f} M, merged while loading\n")
        _print_rows(model, model.text_model, max_context=model.max_context)
    qwen: Any = build_qwen()
    sys.stdout.write(f"Qwen3-VL-8B: {_count(qwen) / 1e6:,.0f} M\n")
    _print_rows(qwen, qwen.model.language_model, max_context=4096)


def _print_rows(model: nn.Module, decoder: PreTrainedModel, *, max_context: int) -> None:
    for dtype in (*BYTES, *QUANTIZED):
        weights, cache = measure(model, decoder, dtype, max_context=max_context)
        sys.stdout.write(f"  {dtype:<9} weights {weights:5.1f} GiB, cache {cache:4.2f} GiB for {max_context} tokens\n")


def _linear_layers(decoder: PreTrainedModel) -> list[nn.Linear]:
    layers = decoder.named_modules()
    return [layer for name, layer in layers if isinstance(layer, nn.Linear) and name.rpartition(".")[2] in LAYERS]


def _count(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


if __name__ == "__main__":
    main()

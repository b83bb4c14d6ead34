"""The layers of a Llama or Qwen with a quarter of the kernels, where the time of a pass is that of launching them.

The products of one input are one product, over the same weights: queries, keys and values; gate and up. A residual is
added by the product before it. Queries and keys are rotated together (``engine.inference.kernels``). The results are
those of transformers' layers, up to rounding: ``tests/engine/inference/test_merged.py``. Sizes: ``N`` tokens, ``D``
text width.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm
from transformers import (
    LlamaModel,
    PreTrainedModel,
    Qwen2_5_VLTextModel,
    Qwen2Model,
    Qwen2VLTextModel,
    Qwen3Model,
    Qwen3VLTextModel,
)

from stepscope.engine.inference.kernels import Kernels, Rotate, choose_kernels
from stepscope.engine.model.devices import OneDnnLinear

_MODELS = (LlamaModel, Qwen2Model, Qwen2VLTextModel, Qwen2_5_VLTextModel, Qwen3Model, Qwen3VLTextModel)


class RotaryAttention(Protocol):
    """Attention of all layers, which also rotates."""

    def rotate_and_attend(
        self, layer: int, states: Tensor, rotation: tuple[Tensor, Tensor], *, scale: float, rotate: Rotate
    ) -> Tensor:
        """Rotate and cache the states of a layer as ``Kernels.rotate`` does; attend, ``[N, heads * head_dim]``."""
        ...


class MergedLayers:
    """The layers of a decoder. Its parameters become parts of the merged ones: no weight is held twice.

    ``kernels`` are by default chosen in the first pass.
    """

    def __init__(self, text_model: PreTrainedModel, *, kernels: Kernels | None = None) -> None:
        self.kernels, self._text_model = kernels, text_model
        products = [_list_products(layer) for layer in text_model.layers]
        self._merged = [(_merge(qkv), _merge(gate_up)) for qkv, gate_up, _ in products]

    @staticmethod
    def suits(text_model: PreTrainedModel) -> bool:
        """Return whether a model has such layers, with plain products: not quantized, without an adapter."""
        is_known = type(text_model) in _MODELS and text_model.config.hidden_act == "silu"
        return is_known and all(
            type(product) in {nn.Linear, OneDnnLinear}
            for layer in text_model.layers
            for products in _list_products(layer)
            for product in products
        )

    def __call__(self, hidden: Tensor, positions: Tensor, attention: RotaryAttention) -> Tensor:
        """Return the last hidden states of embeddings, which are overwritten; sizes are those of ``forward_layers``."""
        text_model, kernels = self._text_model, self.kernels
        num_heads, num_kv_heads = text_model.config.num_attention_heads, text_model.config.num_key_value_heads
        if kernels is None:
            sizes = {"num_kv_heads": num_kv_heads, "head_dim": text_model.layers[0].self_attn.head_dim}
            kernels = self.kernels = choose_kernels(hidden, num_heads=num_heads, **sizes)
        hidden, *added = hidden.split(text_model.config.hidden_size, dim=-1)
        rotation = text_model.rotary_emb(hidden[None], position_ids=positions.unsqueeze(-2))
        cos, sin = (part[0].contiguous() for part in rotation)
        sin = torch.cat([-sin[:, : sin.shape[1] // 2], sin[:, sin.shape[1] // 2 :]], dim=-1)
        for number, (layer, (qkv, gate_up)) in enumerate(zip(text_model.layers, self._merged, strict=True)):
            own = layer.self_attn
            states = linear(_normalize(layer.input_layernorm, hidden), *qkv).unflatten(-1, (-1, own.head_dim))
            if hasattr(own, "q_norm"):
                queries, keys, values = states.split([num_heads, num_kv_heads, num_kv_heads], dim=1)
                states = torch.cat([_normalize(own.q_norm, queries), _normalize(own.k_norm, keys), values], dim=1)
            attended = attention.rotate_and_attend(number, states, (cos, sin), scale=own.scaling, rotate=kernels.rotate)
            hidden = _add_product(hidden, attended, own.o_proj)
            activated = kernels.activate(linear(_normalize(layer.post_attention_layernorm, hidden), *gate_up))
            hidden = _add_product(hidden, activated, layer.mlp.down_proj)
            hidden = hidden + added[number] if number < len(added) else hidden
        return _normalize(text_model.norm, hidden)


def _list_products(layer: Any) -> tuple[list[nn.Linear], list[nn.Linear], list[nn.Linear]]:
    """Return those of queries, keys and values, those of gate and up, and those that a residual is added to."""
    attention, mlp = layer.self_attn, layer.mlp
    return (
        [attention.q_proj, attention.k_proj, attention.v_proj],
        [mlp.gate_proj, mlp.up_proj],
        [attention.o_proj, mlp.down_proj],
    )


def _merge(products: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Return the weight and the bias of products of one input as one; those of each become parts of them."""
    weight = torch.cat([product.weight.data for product in products])
    for product, part in zip(products, weight.split([len(product.weight) for product in products]), strict=True):
        product.weight.data = part
    biases = [product.bias.data for product in products if product.bias is not None]
    return weight, torch.cat(biases) if biases else None


def _normalize(norm: Any, hidden: Tensor) -> Tensor:
    return rms_norm(hidden, hidden.shape[-1:], norm.weight, norm.variance_epsilon)


def _add_product(hidden: Tensor, states: Tensor, product: nn.Linear) -> Tensor:
    """Add the product of states to hidden states, in place if it has no bias."""
    if product.bias is not None:
        summed: Tensor = hidden + product(states)
        return summed
    return hidden.addmm_(states, product.weight.t())

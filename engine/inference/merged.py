"""The layers of a Llama or Qwen2 with a third of the kernels, where the time of a pass is that of launching them.

The products of one input are one product, over the same weights: queries, keys and values; gate and up. A residual is
added by the product before it. Queries and keys are rotated together. The results are those of transformers' layers, up
to rounding: ``tests/engine/inference/test_merged.py``. Sizes: ``N`` tokens, ``D`` text width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm
from transformers import LlamaModel, PreTrainedModel, Qwen2_5_VLTextModel, Qwen2Model, Qwen2VLTextModel

from stepscope.engine.model.attention import LayerAttention
from stepscope.engine.model.devices import OneDnnLinear

_MODELS = (LlamaModel, Qwen2Model, Qwen2VLTextModel, Qwen2_5_VLTextModel)


class MergedLayers:
    """The layers of a decoder. Its parameters become parts of the merged ones: no weight is held twice."""

    def __init__(self, text_model: PreTrainedModel) -> None:
        self._text_model = text_model
        products = [_list_products(layer) for layer in text_model.layers]
        self._merged = [(_merge(qkv), _merge(gate_up)) for qkv, gate_up, _ in products]

    @staticmethod
    def suits(text_model: PreTrainedModel) -> bool:
        """Return whether a model has such layers, with plain products: not quantized, without an adapter."""
        return type(text_model) in _MODELS and all(
            type(product) in {nn.Linear, OneDnnLinear}
            for layer in text_model.layers
            for products in _list_products(layer)
            for product in products
        )

    def __call__(self, hidden: Tensor, positions: Tensor, attention: LayerAttention) -> Tensor:
        """Return the last hidden states of embeddings ``[N, D]``, which are overwritten, at positions ``[N]``.

        Positions ``[axes, N]`` are those of a text: the same on all axes.
        """
        text_model = self._text_model
        num_heads, num_kv_heads = text_model.config.num_attention_heads, text_model.config.num_key_value_heads
        rotation = text_model.rotary_emb(hidden[None], position_ids=positions.unsqueeze(-2))
        cos, sin = (part.flatten(0, -3)[0][:, None] for part in rotation)
        sin = torch.cat([-sin[..., : sin.shape[-1] // 2], sin[..., sin.shape[-1] // 2 :]], dim=-1)
        for number, (layer, (qkv, gate_up)) in enumerate(zip(text_model.layers, self._merged, strict=True)):
            own = layer.self_attn
            states = linear(_normalize(layer.input_layernorm, hidden), *qkv).unflatten(-1, (-1, own.head_dim))
            rotated = _rotate(states[:, : num_heads + num_kv_heads], cos, sin)
            parts = (rotated[:, :num_heads], rotated[:, num_heads:], states[:, num_heads + num_kv_heads :])
            queries, keys, values = (part.transpose(0, 1) for part in parts)
            attended = attention.attend(number, queries, keys, values, scale=own.scaling)
            hidden = _add_product(hidden, attended, own.o_proj)
            gate, up = linear(_normalize(layer.post_attention_layernorm, hidden), *gate_up).chunk(2, dim=-1)
            hidden = _add_product(hidden, layer.mlp.act_fn(gate) * up, layer.mlp.down_proj)
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


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate states ``[N, heads, head_dim]``; ``sin`` is negative in its first half."""
    return torch.addcmul(states * cos, states.roll(states.shape[-1] // 2, dims=-1), sin)


def _add_product(hidden: Tensor, states: Tensor, product: nn.Linear) -> Tensor:
    """Add the product of states to hidden states, in place if it has no bias."""
    if product.bias is not None:
        summed: Tensor = hidden + product(states)
        return summed
    return hidden.addmm_(states, product.weight.t())

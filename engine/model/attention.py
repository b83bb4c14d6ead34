"""Runs the layers of the text model with attention over caches that the model does not know.

The layers are transformers' own. They call the attention function that is registered here, which passes queries, keys
and values to a ``LayerAttention``. Sizes: ``N`` new tokens of all streams, ``B`` streams, ``L`` queries per stream,
``C`` keys per stream.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import rotate_half

_NAME = "stepscope"


class LayerAttention(Protocol):
    """Attention of all layers in one pass over many streams."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        """Append new keys and values to the caches of a layer, and attend with the queries.

        Args:
            layer: Number of the layer, from 0.
            queries: ``[heads, N, head_dim]``, with their positions applied.
            keys: ``[kv_heads, N, head_dim]``, with their positions applied.
            values: ``[kv_heads, N, head_dim]``.
            scale: Factor of the scores.

        Returns:
            ``[N, heads * head_dim]``.
        """
        ...


def use_layer_attention(text_model: PreTrainedModel) -> None:
    """Let the layers of a model take a ``LayerAttention``; without one they attend as transformers does by default."""
    text_model.set_attn_implementation(_NAME)


def forward_layers(
    text_model: PreTrainedModel,
    hidden: Tensor,
    positions: Tensor,
    attention: LayerAttention,
    *,
    read_rows: Tensor | None = None,
) -> Tensor:
    """Return the last hidden states of embeddings ``[N, D]`` at positions ``[N]``, or ``[axes, N]``.

    Embeddings ``[N, (1 + n) * D]`` also have what is added after each of the first ``n`` layers.
    ``read_rows [R]`` are the rows to return, ``[R, D]``; by default all. The last layer spares its MLP for the others.
    """
    hidden, *added = hidden[None].split(text_model.config.hidden_size, dim=-1)
    options = {
        "position_embeddings": text_model.rotary_emb(hidden, position_ids=positions.to(hidden.device).unsqueeze(-2))
    }
    *layers, last = text_model.layers
    for number, layer in enumerate(layers):
        hidden = layer(hidden, layer_attention=attention, **options)
        hidden = hidden + added[number] if number < len(added) else hidden
    normed = last.input_layernorm(hidden)
    hidden = hidden + last.self_attn(normed, attention_mask=None, layer_attention=attention, **options)[0]
    if read_rows is not None:
        hidden = hidden[:, read_rows]
    hidden = hidden + last.mlp(last.post_attention_layernorm(hidden))
    last_hidden: Tensor = text_model.norm(hidden)
    return last_hidden[0]


def has_fixed_rotation(text_model: PreTrainedModel) -> bool:
    """Return whether the rotary embedding of a model does not depend on the length of the context."""
    return text_model.rotary_emb.rope_type not in {"dynamic", "longrope"}


def shift_keys(text_model: PreTrainedModel, keys: Tensor, *, distance: int) -> Tensor:
    """Return keys ``[..., L, head_dim]`` as if their tokens stood ``distance`` positions earlier, on every axis.

    Rotations add up: the rotation of position ``p`` and that of ``-distance`` are the rotation of ``p - distance``.
    They are computed in float32.

    **Source**: RoFormer, equation 34 (arXiv 2104.09864), in the layout of transformers' Llama.
    """
    rotary, exact = text_model.rotary_emb, keys.float()
    shape = (3, 1, 1) if hasattr(rotary, "mrope_section") else (1, 1)  # transformers 5.17 needs all three axes
    rotation = rotary(exact, torch.full(shape, -distance, device=keys.device))
    cos, sin = (part / rotary.attention_scaling for part in rotation)  # the keys are scaled already
    shifted: Tensor = exact * cos + rotate_half(exact) * sin
    return shifted.to(keys.dtype)


def attend(queries: Tensor, keys: Tensor, values: Tensor, *, bias: Tensor, scale: float) -> Tensor:
    """Attend with queries ``[B, heads, L, head_dim]`` to keys and values ``[B, kv_heads, C, head_dim]``.

    Grouped-query attention: the query heads of one key head are folded into the query axis. With 4 query heads, 2 key
    heads and ``L`` = 3, the folded queries are ``[B, 2, 6, head_dim]``. The first key head gets three of head 0, then
    three of head 1.

    ``bias`` is 0 where a key is visible and ``-inf`` elsewhere, ``[B, 1, heads / kv_heads * L, C]``: one copy of the
    mask per folded head.

    Returns:
        ``[B, L, heads * head_dim]``.
    """
    batch, heads, length, head_dim = queries.shape
    folded = queries.reshape(batch, keys.shape[1], -1, head_dim)
    attended = scaled_dot_product_attention(folded, keys, values, bias, scale=scale)
    return attended.reshape(batch, heads, length, head_dim).transpose(1, 2).reshape(batch, length, -1)


def _attention_function(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layer_attention: LayerAttention | None = None,
    scaling: float,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend in a layer of transformers, ``query`` being ``[1, heads, N, head_dim]``."""
    if layer_attention is None:
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return output
    return layer_attention.attend(module.layer_idx, query[0], key[0], value[0], scale=scaling), None


AttentionInterface.register(_NAME, _attention_function)
AttentionMaskInterface.register(_NAME, sdpa_mask)

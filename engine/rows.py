"""One forward pass for the pieces of many streams, of whatever lengths: packed end to end, without padding.

Everything but attention looks at one token at a time, so the rows' tokens run through it as one sequence ``[N, D]``.
Attention looks at one stream at a time: each row's queries meet its own keys and values, in its own cache, at its own
positions. There is no padding that a mask would have to hide. The layers are the text model's own (Llama).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from engine.cache import KVCache
from engine.model import StreamingModel


def forward_rows(model: StreamingModel, inputs: Sequence[Tensor], caches: Sequence[KVCache]) -> Tensor:
    """Feed each row's embeddings ``[L_i, D]`` after what its cache holds; return all hidden states ``[N, D]``."""
    text = model.vlm.model.text_model
    lengths = [len(row) for row in inputs]
    starts = [cache.length for cache in caches]
    hidden = torch.cat(list(inputs))
    masks = [_mask(start, length, hidden) for start, length in zip(starts, lengths, strict=True)]
    positions = torch.cat([torch.arange(s, s + n, device=hidden.device) for s, n in zip(starts, lengths, strict=True)])
    cos, sin = text.rotary_emb(hidden, position_ids=positions[None])
    for number, layer in enumerate(text.layers):
        attention = layer.self_attn
        normed = layer.input_layernorm(hidden)
        query, keys, values = (
            project(normed).view(1, len(hidden), -1, attention.head_dim).transpose(1, 2)
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        query, keys = apply_rotary_pos_emb(query, keys, cos, sin)
        rows = zip(*(tensor.split(lengths, dim=2) for tensor in (query, keys, values)), strict=True)
        attended = [
            _attend(row_query, *cache.layers[number].update(row_keys, row_values), mask=mask, scale=attention.scaling)
            for (row_query, row_keys, row_values), cache, mask in zip(rows, caches, masks, strict=True)
        ]
        joined = torch.cat(attended, dim=2).transpose(1, 2).reshape(len(hidden), -1)
        hidden = hidden + attention.o_proj(joined)
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    normed_hidden: Tensor = text.norm(hidden)
    return normed_hidden


def _attend(query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, scale: float) -> Tensor:
    causal = mask is None and query.shape[2] > 1
    return scaled_dot_product_attention(query, keys, values, mask, is_causal=causal, scale=scale, enable_gqa=True)


def _mask(start: int, length: int, like: Tensor) -> Tensor | None:
    """Let each of ``length`` tokens see the ``start`` before them and those up to itself; None where nothing hides."""
    if length == 1 or start == 0:
        return None
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)

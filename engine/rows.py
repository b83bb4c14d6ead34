"""One forward pass for the pieces of many streams, of whatever lengths: packed end to end, without padding.

Everything but attention looks at one token at a time, so the rows' tokens run through it as one sequence ``[N, D]``.
Attention looks at one stream at a time: each row's queries meet its own keys and values, in its own cache, at its own
positions. There is no padding that a mask would have to hide. The layers are the text model's own (Llama). In the last
one only the tokens that are read go further than their keys and values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.cache import KVCache
from engine.model import StreamingModel


def forward_rows(
    model: StreamingModel,
    inputs: Sequence[Tensor],
    caches: Sequence[KVCache],
    read_at: Sequence[Sequence[int]],
) -> Tensor:
    """Feed each row's embeddings ``[L_i, D]`` after what its cache holds.

    Returns the hidden states ``[R, D]`` at the positions that ``read_at`` names in each row, row after row.
    """
    text = model.vlm.model.text_model
    lengths = [len(row) for row in inputs]
    starts = [cache.length for cache in caches]
    hidden = torch.cat(list(inputs))
    masks = [_mask(start, length, hidden) for start, length in zip(starts, lengths, strict=True)]
    positions = torch.cat([torch.arange(s, s + n, device=hidden.device) for s, n in zip(starts, lengths, strict=True)])
    cos, sin = (table[0] for table in text.rotary_emb(hidden, position_ids=positions[None]))
    ends = torch.tensor([0, *lengths]).cumsum(0).tolist()
    read = torch.tensor([end + at for end, row in zip(ends, read_at, strict=False) for at in row], device=hidden.device)
    for number, layer in enumerate(text.layers):
        attention, normed = layer.self_attn, layer.input_layernorm(hidden)
        keys = _rotate(_heads(attention.k_proj(normed), attention.head_dim), cos, sin)
        values = _heads(attention.v_proj(normed), attention.head_dim)
        if number == len(text.layers) - 1:
            hidden, normed, cos, sin = hidden[read], normed[read], cos[read], sin[read]
            masks = [mask[list(row)] for mask, row in zip(masks, read_at, strict=True)]
        query = _rotate(_heads(attention.q_proj(normed), attention.head_dim), cos, sin)
        news = zip(keys.split(lengths, dim=1), values.split(lengths, dim=1), strict=True)
        pasts = [cache.layers[number].update(k[None], v[None]) for cache, (k, v) in zip(caches, news, strict=True)]
        queries = query.split([len(mask) for mask in masks], dim=1)
        attended = [
            _attend(row, k[0], v[0], mask=mask, scale=attention.scaling)
            for row, (k, v), mask in zip(queries, pasts, masks, strict=True)
        ]
        hidden = hidden + attention.o_proj(torch.cat(attended))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    normed_hidden: Tensor = text.norm(hidden)
    return normed_hidden


def _heads(projected: Tensor, width: int) -> Tensor:
    """Split ``[N, heads * width]`` into ``[heads, N, width]``."""
    return projected.view(len(projected), -1, width).transpose(0, 1)


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn ``[heads, N, width]`` by the angles of the positions, halves as pairs, as the text model does."""
    half = states.shape[-1] // 2
    return states * cos + torch.cat((-states[..., half:], states[..., :half]), dim=-1) * sin


def _attend(query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor, scale: float) -> Tensor:
    """Attend with queries ``[heads, L, width]``; heads that share keys are laid one behind the other. ``[L, D]``."""
    heads, length, width = query.shape
    groups = heads // len(keys)
    folded = query.reshape(1, len(keys), groups * length, width)
    attended = scaled_dot_product_attention(folded, keys[None], values[None], mask.repeat(groups, 1), scale=scale)
    return attended.view(heads, length, width).transpose(0, 1).reshape(length, -1)


def _mask(start: int, length: int, like: Tensor) -> Tensor:
    """Let each of ``length`` tokens see the ``start`` before them and those up to itself: 0 there, else ``-inf``."""
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)

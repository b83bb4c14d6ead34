"""One forward pass for the pieces of many streams, of whatever lengths: packed end to end, without padding.

Everything but attention looks at one token at a time, so the rows' tokens run through it as one sequence ``[N, D]``.
Attention looks at one stream at a time: each row's queries meet its own keys and values, in its own cache, at its own
positions. There is no padding that a mask would have to hide. The layers are the text model's own (Llama). In the last
one only the tokens that are read go further than their keys and values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.inference.attention import attend, rotate, split_heads
from engine.model.kv_cache import KVCache
from engine.model.smolvlm import StreamingModel


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
        keys = rotate(split_heads(attention.k_proj(normed), attention.head_dim), cos, sin)
        values = split_heads(attention.v_proj(normed), attention.head_dim)
        if number == len(text.layers) - 1:
            hidden, normed, cos, sin = hidden[read], normed[read], cos[read], sin[read]
            masks = [mask[list(row)] for mask, row in zip(masks, read_at, strict=True)]
        query = rotate(split_heads(attention.q_proj(normed), attention.head_dim), cos, sin)
        news = zip(keys.split(lengths, dim=1), values.split(lengths, dim=1), strict=True)
        pasts = [cache.layers[number].update(k[None], v[None]) for cache, (k, v) in zip(caches, news, strict=True)]
        queries = query.split([len(mask) for mask in masks], dim=1)
        attended = [
            attend(row[None], k, v, bias=mask.repeat(len(row) // k.shape[1], 1)[None, None], scale=attention.scaling)[0]
            for row, (k, v), mask in zip(queries, pasts, masks, strict=True)
        ]
        hidden = hidden + attention.o_proj(torch.cat(attended))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    normed_hidden: Tensor = text.norm(hidden)
    return normed_hidden


def _mask(start: int, length: int, like: Tensor) -> Tensor:
    """Let each of ``length`` tokens see the ``start`` before them and those up to itself: 0 there, else ``-inf``."""
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)

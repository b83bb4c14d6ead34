"""One forward pass for many streams of different lengths: sequences packed end to end, without padding.

All layers except attention act on single tokens, so they process the tokens of all streams as one sequence ``[N, D]``.
Attention runs per stream: its queries see the keys and values of its own cache, at its own positions. The layers are
the text model's own (Llama). In the last layer only the positions that are read continue past the keys and values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.inference.attention import apply_rotary, attend, split_heads
from engine.model.kv_cache import KVCache
from engine.model.smolvlm import StreamingModel


def forward_packed(
    model: StreamingModel,
    inputs: Sequence[Tensor],
    caches: Sequence[KVCache],
    read_positions: Sequence[Sequence[int]],
) -> Tensor:
    """Append each stream's embeddings ``[L_i, D]`` to its cache; return hidden states ``[R, D]``.

    Row ``r`` is the ``r``-th of all ``read_positions``, stream after stream; positions count from 0 in each input.

    Worked example: two streams feed 2 and 3 tokens after caches of 5 and 0. ``N`` is 5, and ``offsets`` is
    ``[0, 2, 5]``. The rotary positions are ``[5, 6, 0, 1, 2]``. The reads ``[(1,), (0, 2)]`` select the packed rows
    ``[1, 2, 4]``.
    """
    text = model.vlm.model.text_model
    lengths = [len(embeddings) for embeddings in inputs]
    starts = [cache.length for cache in caches]
    hidden = torch.cat(list(inputs))
    masks = [_causal_mask(start, length, hidden) for start, length in zip(starts, lengths, strict=True)]
    positions = torch.cat([torch.arange(s, s + n, device=hidden.device) for s, n in zip(starts, lengths, strict=True)])
    cos, sin = (table[0] for table in text.rotary_emb(hidden, position_ids=positions[None]))
    offsets = torch.tensor([0, *lengths]).cumsum(0).tolist()
    read_rows = torch.tensor(
        [offset + at for offset, reads in zip(offsets, read_positions, strict=False) for at in reads],
        device=hidden.device,
    )
    for number, layer in enumerate(text.layers):
        attention, normed = layer.self_attn, layer.input_layernorm(hidden)
        keys = apply_rotary(split_heads(attention.k_proj(normed), attention.head_dim), cos, sin)
        values = split_heads(attention.v_proj(normed), attention.head_dim)
        if number == len(text.layers) - 1:  # nothing after it needs the rows that are not read
            hidden, normed, cos, sin = hidden[read_rows], normed[read_rows], cos[read_rows], sin[read_rows]
            masks = [mask[list(reads)] for mask, reads in zip(masks, read_positions, strict=True)]
        query = apply_rotary(split_heads(attention.q_proj(normed), attention.head_dim), cos, sin)
        new = zip(keys.split(lengths, dim=1), values.split(lengths, dim=1), strict=True)
        cached = [cache.layers[number].update(k[None], v[None]) for cache, (k, v) in zip(caches, new, strict=True)]
        queries = query.split([len(mask) for mask in masks], dim=1)
        attended = [
            attend(q[None], k, v, bias=mask.repeat(len(q) // k.shape[1], 1)[None, None], scale=attention.scaling)[0]
            for q, (k, v), mask in zip(queries, cached, masks, strict=True)
        ]
        hidden = hidden + attention.o_proj(torch.cat(attended))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    normed_hidden: Tensor = text.norm(hidden)
    return normed_hidden


def _causal_mask(start: int, length: int, like: Tensor) -> Tensor:
    """Return the mask ``[length, start + length]`` of tokens after ``start`` cached ones: 0 visible, ``-inf`` hidden.

    For ``start`` = 2 and ``length`` = 3, with ``-`` for ``-inf``::

        0 0 0 - -
        0 0 0 0 -
        0 0 0 0 0
    """
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)

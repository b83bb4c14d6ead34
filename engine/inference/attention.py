"""Attention without the layer's own weights: head layout, rotary embedding and scaled dot product (Llama).

Sizes: ``N`` tokens, ``B`` streams, ``L`` queries per stream, ``C`` keys per stream.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def split_heads(projected: Tensor, head_dim: int) -> Tensor:
    """Split ``[N, heads * head_dim]`` into ``[heads, N, head_dim]``."""
    return projected.view(len(projected), -1, head_dim).transpose(0, 1)


def apply_rotary(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary position embedding to ``[heads, N, head_dim]``, with the halves as pairs like the text model."""
    half = states.shape[-1] // 2
    return states * cos + torch.cat((-states[..., half:], states[..., :half]), dim=-1) * sin


def attend(query: Tensor, keys: Tensor, values: Tensor, *, bias: Tensor, scale: float) -> Tensor:
    """Attend with queries ``[B, heads, L, head_dim]`` to keys and values ``[B, kv_heads, C, head_dim]``.

    Grouped-query attention: the query heads of one key head are folded into the query axis. With 4 query heads, 2 key
    heads and ``L`` = 3, the folded queries are ``[B, 2, 6, head_dim]``. The first key head gets three of head 0, then
    three of head 1.

    ``bias`` is 0 where a key is visible and ``-inf`` elsewhere, ``[B, 1, heads / kv_heads * L, C]``: one copy of the
    mask per folded head.

    Returns:
        ``[B, L, heads * head_dim]``.
    """
    batch, heads, length, head_dim = query.shape
    folded = query.reshape(batch, keys.shape[1], -1, head_dim)
    attended = scaled_dot_product_attention(folded, keys, values, bias, scale=scale)
    return attended.view(batch, heads, length, head_dim).transpose(1, 2).reshape(batch, length, -1)

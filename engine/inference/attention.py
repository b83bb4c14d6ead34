"""What attention does besides the layers' own weights: heads, the turn of the positions, and who sees what (Llama).

Sizes: ``N`` tokens, ``B`` streams, ``L`` queries of a stream, ``C`` keys that it may meet.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def split_heads(projected: Tensor, width: int) -> Tensor:
    """Split ``[N, heads * width]`` into ``[heads, N, width]``."""
    return projected.view(len(projected), -1, width).transpose(0, 1)


def rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn ``[heads, N, width]`` by the angles of the positions, halves as pairs, as the text model does."""
    half = states.shape[-1] // 2
    return states * cos + torch.cat((-states[..., half:], states[..., :half]), dim=-1) * sin


def attend(query: Tensor, keys: Tensor, values: Tensor, *, bias: Tensor, scale: float) -> Tensor:
    """Attend with queries ``[B, heads, L, width]`` to keys and values ``[B, shared, C, width]``.

    Heads that share keys are laid one behind the other, so ``bias`` (0 where a key is seen, ``-inf`` where not) is
    ``[B, 1, heads / shared * L, C]``. Returns ``[B, L, heads * width]``.
    """
    rows, heads, length, width = query.shape
    folded = query.reshape(rows, keys.shape[1], -1, width)
    attended = scaled_dot_product_attention(folded, keys, values, bias, scale=scale)
    return attended.view(rows, heads, length, width).transpose(1, 2).reshape(rows, length, -1)

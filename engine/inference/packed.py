"""One forward pass for many streams of different lengths: sequences packed end to end, without padding.

All layers except attention act on single tokens, so they process the tokens of all streams as one sequence ``[N, D]``.
Attention runs per stream: its queries see the keys and values of its own cache, at its own positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stepscope.engine.model.attention import attend, forward_layers
from stepscope.engine.model.kv_cache import KVBranch, KVCache
from stepscope.engine.model.vision_language import VisionLanguageModel


def forward_packed(
    model: VisionLanguageModel,
    inputs: Sequence[Tensor],
    caches: Sequence[KVCache | KVBranch],
    read_positions: Sequence[Sequence[int]],
    own_positions: Sequence[Tensor] | None = None,
) -> Tensor:
    """Append each stream's embeddings ``[L_i, D]`` to its cache; return hidden states ``[R, D]``.

    ``own_positions [axes, L_i]`` are the rotary positions of each stream; by default those after its cache.

    Row ``r`` is the ``r``-th of all ``read_positions``, stream after stream; positions count from 0 in each input.

    Worked example: two streams feed 2 and 3 tokens after caches of 5 and 0. ``N`` is 5, and ``offsets`` is
    ``[0, 2, 5]``. The rotary positions are ``[5, 6, 0, 1, 2]``. The reads ``[(1,), (0, 2)]`` select the packed rows
    ``[1, 2, 4]``.
    """
    lengths = [len(embeddings) for embeddings in inputs]
    starts = [cache.length for cache in caches]
    hidden = torch.cat(list(inputs))
    own_positions = own_positions or [
        torch.arange(start, start + length, device=hidden.device) for start, length in zip(starts, lengths, strict=True)
    ]
    positions = torch.cat(list(own_positions), dim=-1)
    text = model.text_model
    groups = text.config.num_attention_heads // text.config.num_key_value_heads
    masks = (_causal_mask(start, length, hidden) for start, length in zip(starts, lengths, strict=True))
    biases = [mask.repeat(groups, 1)[None, None] for mask in masks]
    attention = _PackedAttention(caches=caches, lengths=lengths, biases=biases)
    offsets = torch.tensor([0, *lengths]).cumsum(0).tolist()
    read_rows = torch.tensor(
        [offset + at for offset, reads in zip(offsets, read_positions, strict=False) for at in reads],
        device=hidden.device,
        dtype=torch.long,  # a pass that only feeds reads no row
    )
    return forward_layers(text, hidden, positions, attention, read_rows=read_rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PackedAttention:
    """Attention of each stream over its own cache, as a ``LayerAttention``."""

    caches: Sequence[KVCache | KVBranch]
    lengths: list[int]
    """New tokens of each stream."""
    biases: Sequence[Tensor]
    """The causal mask ``[1, 1, groups * L_i, C_i]`` of each stream, as ``attend`` takes it."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        parts = (states.split(self.lengths, dim=1) for states in (queries, keys, values))
        attended = []
        for cache, bias, query, key, value in zip(self.caches, self.biases, *parts, strict=True):
            cached = cache.layers[layer].update(key[None], value[None])
            attended.append(attend(query[None], *cached, bias=bias, scale=scale)[0])
        return torch.cat(attended)


def _causal_mask(start: int, length: int, like: Tensor) -> Tensor:
    """Return the mask ``[length, start + length]`` of tokens after ``start`` cached ones: 0 visible, ``-inf`` hidden.

    For ``start`` = 2 and ``length`` = 3, with ``-`` for ``-inf``::

        0 0 0 - -
        0 0 0 0 -
        0 0 0 0 0
    """
    return like.new_full((length, start + length), -torch.inf).triu(start + 1)

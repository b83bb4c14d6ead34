"""A model pass whose shapes never change: tokens of many streams in, probabilities and next tokens out, on the device.

As in ``engine.inference.packed`` the streams' tokens run as one sequence ``[N, D]`` through everything but attention,
but all is padded to the sizes of a ``Shape``, and a context is looked at up to a round length, under a mask. What
differs from one pass to the next is in buffers that never move, so a pass can be captured once and replayed (see
``engine.inference.cuda_graphs``). Padding is written to a place that no one looks at, and is never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaModel

from engine.config import DecisionPolicy
from engine.inference.attention import attend, rotate, split_heads
from engine.inference.kv_pool import Arena, FixedCache
from engine.model.smolvlm import StreamingModel

Inputs = Sequence[int | Tensor]
"""What a stream feeds: token ids, and frames' features ``[I, F]``."""
_WIDTHS = (1, 2, 4, 8, 32, 64, 128, 512)
"""Tokens of a stream in a pass. Up to 32 a GPU waits for the weights anyway, so there are few sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a pass."""

    tokens: int
    """``N``, of all streams together."""
    rows: int
    """``B``, slots that are looked at."""
    width: int
    """``L``, of a stream."""
    context: int
    """``C``, of a stream, with what is fed."""
    picks: bool
    """Whether next tokens are picked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What is read at a position."""

    policy: DecisionPolicy
    """Where the probabilities come from."""
    silent_id: int | None
    """The token that means silence, for the token policies."""
    never: tuple[int, ...]
    """Token ids that are never picked."""


def is_supported(model: StreamingModel) -> bool:
    """Whether the text model is a Llama whose positions turn alike at every length."""
    text = model.vlm.model.text_model
    return isinstance(text, LlamaModel) and text.rotary_emb.rope_type not in {"dynamic", "longrope"}


def shape_of(
    lengths: Sequence[int], caches: Sequence[FixedCache], *, picks: bool, smallest: int, most: int
) -> Shape | None:
    """Return the smallest shape that holds a pass.

    Args:
        lengths: Tokens that each stream feeds.
        caches: Where.
        picks: Whether next tokens are picked.
        smallest: Shortest context; longer ones double.
        most: Tokens that a pass may have, padding included; None for more.
    """
    arena = caches[0].arena
    rows = min(_double(1, max(cache.slot for cache in caches) + 1), arena.rows)
    width = next((width for width in _WIDTHS if width >= max(lengths)), None)
    if width is None or rows * width > most:
        return None
    context = max(cache.length + length for cache, length in zip(caches, lengths, strict=True))
    assert context <= arena.capacity, "a pass that leaves its slot would write into the next stream's"
    return Shape(
        tokens=min(_double(rows, sum(lengths)), rows * width),
        rows=rows,
        width=width,
        context=min(_double(smallest, context), arena.capacity),
        picks=picks,
    )


def _double(size: int, wanted: int) -> int:
    while size < wanted:
        size *= 2
    return size


class StaticStep:
    """A pass of one shape over the slots of an arena: ``fill`` its buffers, then call it as often as there are passes.

    A call returns float64 ``[2, N]``, or ``[3, N]`` with the next tokens: speaking and update probabilities, tokens.
    """

    def __init__(self, model: StreamingModel, arena: Arena, *, shape: Shape, reads: Reads) -> None:
        self.model, self.arena, self.shape, self.reads = model, arena, shape, reads
        n, device = shape.tokens, model.device
        self._numbers = torch.zeros(6 * n + shape.rows * shape.width, dtype=torch.long, device=device)
        self._features = torch.zeros(n, model.feature_dim, dtype=model.dtype, device=device)
        self._never = torch.tensor(reads.never, dtype=torch.long, device=device)
        self._groups = model.vlm.config.text_config.num_attention_heads // arena.keys[0].shape[1]

    def fill(self, inputs: Sequence[Inputs], caches: Sequence[FixedCache]) -> None:
        """Write what the streams feed, and where, into the buffers: numbers in one copy, features in another."""
        n, width = self.shape.tokens, self.shape.width
        ids, is_image, image_at = list[int](), list[int](), list[int]()
        positions, places, found = list[int](), list[int](), list[int]()
        spread = [0] * (self.shape.rows * width)
        images: list[Tensor] = []
        for pieces, cache in zip(inputs, caches, strict=True):
            first = len(ids)
            for piece in pieces:
                count = 1 if isinstance(piece, int) else len(piece)
                ids += [piece if isinstance(piece, int) else 0] * count
                is_image += [int(not isinstance(piece, int))] * count
                image_at += [0] if isinstance(piece, int) else range(count * len(images), count * (len(images) + 1))
                images += [] if isinstance(piece, int) else [piece]
            start, fed, at = cache.length, len(ids) - first, cache.slot * width
            positions += range(start, start + fed)
            places += range(cache.slot * self.arena.capacity + start, cache.slot * self.arena.capacity + start + fed)
            found += range(at, at + fed)
            spread[at : at + fed] = range(first, len(ids))
        padding = [0] * (n - len(ids))
        numbers = [
            *(*ids, *padding, *is_image, *padding, *image_at, *padding, *positions, *padding),
            *(*places, *(self.arena.nowhere for _ in padding), *found, *padding, *spread),
        ]
        pinned = torch.tensor(numbers, pin_memory=self._numbers.is_cuda)
        self._numbers.copy_(pinned, non_blocking=True)
        if images:
            features = torch.cat(images)
            self._features[: len(features)].copy_(features, non_blocking=True)

    def __call__(self) -> Tensor:
        """Run the pass. Its keys and values are written; running it again changes nothing."""
        shape, text = self.shape, self.model.vlm.model.text_model
        n = shape.tokens
        ids, is_image, image_at, positions, places, found = self._numbers[: 6 * n].view(6, n)
        spread = self._numbers[6 * n :]
        images = self.model.embed_frames(self._features)[image_at]
        hidden = torch.where(is_image.bool()[:, None], images, self.model.embed_tokens(ids))
        cos, sin = (table[0] for table in text.rotary_emb(hidden, position_ids=positions[None]))
        bias = self._bias(positions[spread], hidden)
        for number, layer in enumerate(text.layers):
            attention, normed = layer.self_attn, layer.input_layernorm(hidden)
            keys = rotate(split_heads(attention.k_proj(normed), attention.head_dim), cos, sin)
            values = split_heads(attention.v_proj(normed), attention.head_dim)
            self.arena.write(number, places, keys.transpose(0, 1), values.transpose(0, 1))
            query = rotate(split_heads(attention.q_proj(normed), attention.head_dim), cos, sin)
            queries = query[:, spread].unflatten(1, (shape.rows, shape.width)).transpose(0, 1)
            pasts = self.arena.read(number, rows=shape.rows, context=shape.context)
            attended = attend(queries, *pasts, bias=bias, scale=attention.scaling)
            hidden = hidden + attention.o_proj(attended.flatten(0, 1)[found])
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self._read(text.norm(hidden))

    def _bias(self, positions: Tensor, like: Tensor) -> Tensor:
        """Let queries at positions ``[B * L]`` see the places up to their own: ``[B, 1, groups * L, C]``."""
        shape = self.shape
        keys = torch.arange(shape.context, device=positions.device)
        hides = keys > positions.view(shape.rows, 1, shape.width, 1)
        bias = torch.zeros(hides.shape, dtype=like.dtype, device=like.device).masked_fill_(hides, -torch.inf)
        return bias if self._groups == 1 else bias.repeat(1, 1, self._groups, 1)

    def _read(self, hidden: Tensor) -> Tensor:
        """Read probabilities and the likeliest next tokens at all positions."""
        by_token = self.reads.policy != "heads"
        logits = self.model.token_logits(hidden) if by_token or self.shape.picks else hidden
        if by_token:
            assert self.reads.silent_id is not None
            speak = 1 - logits.softmax(-1)[:, self.reads.silent_id].double()
            read = [speak, torch.zeros_like(speak)]
        else:
            read = [logit.sigmoid().double() for logit in self.model.decision_logits(hidden)]
        if self.shape.picks:
            read.append(logits.index_fill(1, self._never, -torch.inf).argmax(-1).double())
        return torch.stack(read)

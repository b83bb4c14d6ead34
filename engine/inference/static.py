"""A forward pass with static shapes: tokens of many streams in, probabilities and next tokens out, on the device.

As in ``engine.inference.runner``, the tokens of all streams run as one sequence ``[N, D]`` through everything except
attention. Here all sizes are padded to those of a ``BucketShape``, and attention sees a padded context under a mask.
All inputs that change between passes are in buffers at fixed addresses. So a pass can be captured once and replayed
(see ``engine.inference.cuda_graphs``). Padding is written to the padding row of the pool and never read.

Worked example: a pool of capacity 64. The stream in slot 0 feeds 3 tokens after 10, the stream in slot 1 feeds 1 token
after 20. The bucket has ``N`` = 4 tokens, ``B`` = 2 slots, ``L`` = 4 queries per slot and ``C`` = 64 keys::

    places        10 11 12 20            places in the contexts
    seen          11 12 13 21            keys from 0 that a token sees, with those from ``firsts`` up to its place
    firsts        10 11 12 20
    slot_mapping  10 11 12 84            pool rows to write: slot * 64 + position
    unpack_index   0  1  2  0 | 3 0 0 0  [B * L]: packed token of each query; padding takes token 0
    pack_index     0  1  2  4            [N]: query of each packed token: slot * L + offset
    positions     10 11 12 20            rotary positions: the places, unless the model has its own, on several axes

Attention gathers its queries ``[B, L]`` with ``unpack_index`` and returns to ``[N]`` with ``pack_index``, which skips
the results of padded queries. A branch is further tokens of its stream, whose places the next pass overwrites. With a
question of 2 tokens behind the second token, slot 0 feeds 5: the last two have the places 13 and 14, see the keys 0 to
11 and those from 13 on, and have the positions 12 and 13.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from stepscope.engine.control.requests import Branch
from stepscope.engine.inference.kernels import Rotate
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.readout import ReadoutSpec, decision_probs
from stepscope.engine.model.attention import attend
from stepscope.engine.model.vision_language import VisionLanguageModel

Inputs = Sequence[int | Tensor]
"""Inputs of one stream: token ids, and features ``[tokens_per_frame, F]`` of frames."""
_KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN's is several times as fast as the others where queries are few, and needs a plan for each shape."""
_QUERY_LENS = (1, 2, 4, 8, 32, 64, 96, 128, 192, 256, 384, 512)
"""Bucket sizes of ``L``. Few up to 32, where the time of a pass is that of reading the weights."""
_NUM_ROWS: Final = 8
"""Index tensors ``[N]`` of the module docstring, before the positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketShape:
    """The padded sizes of a pass."""

    num_tokens: int
    """``N``, tokens of all streams."""
    num_slots: int
    """``B``, slots that attention reads."""
    query_len: int
    """``L``, queries per slot."""
    context_len: int
    """``C``, keys per slot, with those of the new tokens."""
    needs_tokens: bool
    has_branches: bool = False


@dataclass(slots=True, kw_only=True, eq=False)  # one that is frozen takes twice as long to make
class StreamTokens:
    """The tokens of one stream in a pass: ``num_kept`` of its own, which its cache keeps, then those of branches."""

    cache: SlotKVCache
    start: int
    """Tokens of the cache before the pass."""
    ids: list[int]
    is_image: list[int]
    """1 at the features of a frame, in place of an id."""
    features: list[Tensor]
    positions: list[list[int]]
    """Rotary positions on each axis."""
    num_kept: int
    ends: Sequence[int]
    """The position after each token that is kept, for a model that has its own positions."""
    branches: list[tuple[int, int]]
    """For each branch the tokens of the slot that it sees, and its own."""

    @property
    def branch_ends(self) -> list[int]:
        """The last token of each branch."""
        if not self.branches:
            return []
        return [end - 1 for end in accumulate((count for _, count in self.branches), initial=self.num_kept)][1:]


def list_tokens(
    model: VisionLanguageModel, pieces: Inputs, cache: SlotKVCache, branches: Sequence[Branch] = ()
) -> StreamTokens:
    """Return the tokens of pieces after the cached ones, and of the branches behind them."""
    ids, is_image, features = list[int](), list[int](), list[Tensor]()
    opening, closing = model.around_frame
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            is_image.append(0)
        else:
            features.append(piece.flatten(0, -2))
            count = len(features[-1])
            ids += [*opening, *[0] * count, *closing]
            is_image += [*[0] * len(opening), *[1] * count, *[0] * len(closing)]
    start, num_kept, num_axes = cache.length, len(ids), cache.pool.num_axes
    at = cache.position_at(start)
    ends: Sequence[int]
    place = model.place(pieces, at) if features else None
    if place is None:  # of a text, all axes are the same
        positions = [list(range(at, at + num_kept)) for _ in range(max(num_axes, 1))]
        ends = range(at + 1, at + num_kept + 1) if num_axes else ()
    else:
        positions, ends = place[0].tolist(), place[1]
    for branch in branches:
        behind, count = start + branch.position + 1, len(branch.ids)
        at = ends[branch.position] if ends else behind
        for axis in positions:
            axis += range(at, at + count)
        ids += branch.ids
        is_image += [0] * count
    return StreamTokens(
        cache=cache,
        start=start,
        ids=ids,
        is_image=is_image,
        features=features,
        positions=positions,
        num_kept=num_kept,
        ends=ends,
        branches=[(start + branch.position + 1, len(branch.ids)) for branch in branches],
    )


def takes_groups(states: Tensor) -> bool:
    """Return whether cuDNN's attention takes the query heads of one key head as they are.

    With a single query it is then twice as fast as over folded heads.
    """
    return states.is_cuda and states.element_size() == 2 and torch.cuda.get_device_capability(states.device) >= (8, 0)


def reads_decisions(model: VisionLanguageModel, spec: ReadoutSpec) -> bool:
    """Return whether a step reads decisions: from heads or a silent token. Answers are read behind branches."""
    return spec.silent_id is not None or (model.has_heads and spec.answer_ids is None)


def pick_bucket(
    lengths: Sequence[int],
    caches: Sequence[SlotKVCache],
    *,
    needs_tokens: bool,
    min_context: int,
    max_tokens: int,
    has_branches: bool = False,
) -> BucketShape | None:
    """Return the smallest bucket that holds a pass, or None above ``max_tokens``.

    ``lengths`` are the new tokens of each stream, ``min_context`` is the smallest ``C``, whose doubles are the larger
    ones, and ``max_tokens`` limits ``B * L``.
    """
    pool = caches[0].pool
    num_slots = min(_double_until(1, max(cache.slot for cache in caches) + 1), pool.num_slots)
    query_len = next((size for size in _QUERY_LENS if size >= max(lengths)), None)
    if query_len is None or num_slots * query_len > max_tokens:
        return None
    context_len = max(cache.length + length for cache, length in zip(caches, lengths, strict=True))
    assert context_len <= pool.capacity, "a pass that leaves its slot would overwrite the next one"
    return BucketShape(
        # one stream's queries are its tokens, so that attention need not gather them
        num_tokens=query_len if num_slots == 1 else min(_double_until(num_slots, sum(lengths)), num_slots * query_len),
        num_slots=num_slots,
        query_len=query_len,
        context_len=min(_double_until(min_context, context_len), pool.capacity),
        needs_tokens=needs_tokens,
        has_branches=has_branches,
    )


def _double_until(size: int, wanted: int) -> int:
    while size < wanted:
        size *= 2
    return size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotAttention:
    """Attention over the slots of a pool, as a ``LayerAttention``; the module docstring has the index tensors."""

    pool: KVCachePool
    shape: BucketShape
    slot_mapping: Tensor
    unpack_index: Tensor
    pack_index: Tensor
    bias: Tensor
    """The causal mask ``[B, 1, L, C]``, or as ``attend`` takes it."""
    folds_heads: bool
    """Whether ``attend`` folds the query heads of one key head."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        """Attend as ``LayerAttention`` defines it."""
        self.pool.write(layer, self.slot_mapping, keys.transpose(0, 1), values.transpose(0, 1))
        return self._attend_cached(layer, queries, scale)

    def rotate_and_attend(
        self, layer: int, states: Tensor, rotation: tuple[Tensor, Tensor], *, scale: float, rotate: Rotate
    ) -> Tensor:
        """Attend with queries, keys and values of a layer before their rotation, as ``Kernels.rotate`` takes them."""
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        queries = rotate(states, *rotation, self.slot_mapping, keys, values)
        return self._attend_cached(layer, queries.transpose(0, 1), scale)

    def _attend_cached(self, layer: int, queries: Tensor, scale: float) -> Tensor:
        """Attend with queries ``[heads, N, head_dim]`` to the cached keys and values."""
        shape = self.shape
        cached = self.pool.read(layer, num_slots=shape.num_slots, context_len=shape.context_len)
        if shape.num_slots == 1:
            return self._attend(queries[None], cached, scale)[0]
        by_slot = queries[:, self.unpack_index].unflatten(1, (shape.num_slots, shape.query_len)).transpose(0, 1)
        return self._attend(by_slot, cached, scale).flatten(0, 1)[self.pack_index]

    def _attend(self, queries: Tensor, cached: tuple[Tensor, Tensor], scale: float) -> Tensor:
        if self.folds_heads:
            return attend(queries, *cached, bias=self.bias, scale=scale)
        has_groups = queries.shape[1] != cached[0].shape[1]
        attended = scaled_dot_product_attention(queries, *cached, self.bias, scale=scale, enable_gqa=has_groups)
        return attended.transpose(1, 2).flatten(2)


Layers = Callable[[Tensor, Tensor, SlotAttention], Tensor]
"""The layers of the text model: embeddings ``[N, D]``, positions ``[N]`` and the attention in, hidden states out."""


class StaticStep:
    """A pass of one shape over the slots of a pool: ``fill`` its buffers, then call it.

    A call returns float64 ``[2, N]``: speak probabilities, or those of yes behind branches, and update probabilities.
    With next tokens it has a third row for their ids, and perhaps a fourth for those that open a turn at an image.
    """

    def __init__(
        self,
        model: VisionLanguageModel,
        pool: KVCachePool,
        *,
        shape: BucketShape,
        readout_spec: ReadoutSpec,
        layers: Layers,
    ) -> None:
        self.model, self.pool, self.shape, self.readout_spec = model, pool, shape, readout_spec
        self._layers = layers
        self.logits: list[Tensor] = []
        """Those of the last call that was not a replay ``[N, V]``, for each row of tokens."""
        n, device = shape.num_tokens, model.device
        self._num_axes = max(pool.num_axes, 1)
        num_indexes = (_NUM_ROWS + self._num_axes) * n + shape.num_slots * shape.query_len
        self._indexes = torch.zeros(num_indexes, dtype=torch.long, device=device)
        self._features = torch.zeros(n, model.feature_dim, dtype=model.dtype, device=device)
        self._num_groups = model.text_model.config.num_attention_heads // pool.keys[0].shape[1]
        self._suppress_tokens = torch.tensor(readout_spec.suppress_tokens, dtype=torch.long, device=device)
        at_images = readout_spec.suppress_at_images
        self._suppress_at_images = torch.tensor(at_images, dtype=torch.long, device=device) if at_images else None

    def fill(self, streams: Sequence[StreamTokens]) -> None:
        """Write the tokens of the streams into the buffers: all indexes in one copy, features in a second."""
        n, query_len = self.shape.num_tokens, self.shape.query_len
        rows = [list[int]() for _ in range(_NUM_ROWS + self._num_axes)]
        ids, is_image, image_at, places, seen, firsts, slot_mapping, pack_index, *positions = rows
        unpack_index = [0] * (self.shape.num_slots * query_len)
        num_features = 0
        for stream in streams:
            first, length, start, slot = len(ids), len(stream.ids), stream.start, stream.cache.slot
            row, query = slot * self.pool.capacity + start, slot * query_len
            ids += stream.ids
            is_image += stream.is_image
            image_at += [0] * length
            for token in range(first, first + length) if stream.features else ():
                image_at[token] = num_features * is_image[token]
                num_features += is_image[token]
            places += range(start, start + length)
            if self.shape.has_branches:
                end = start + stream.num_kept
                seen += range(start + 1, end + 1)
                firsts += range(start, end)
                for behind, count in stream.branches:
                    seen += [behind] * count
                    firsts += [end] * count
                    end += count
            slot_mapping += range(row, row + length)
            pack_index += range(query, query + length)
            for axis, own in zip(positions, stream.positions, strict=True):
                axis += own
            unpack_index[query : query + length] = range(first, len(ids))
        slot_mapping += [self.pool.padding_row] * (n - len(ids))
        for row_values in rows:
            row_values += [0] * (n - len(row_values))
        pinned = torch.tensor([*chain(*rows), *unpack_index], pin_memory=self._indexes.is_cuda)
        self._indexes.copy_(pinned, non_blocking=True)
        if num_features:
            features = torch.cat([feature for stream in streams for feature in stream.features])
            self._features[:num_features].copy_(features, non_blocking=True)

    def __call__(self) -> Tensor:
        """Run the pass and write its keys and values. A second call with the same buffers changes nothing."""
        shape, num_rows = self.shape, _NUM_ROWS + self._num_axes
        rows = self._indexes[: num_rows * shape.num_tokens].view(num_rows, shape.num_tokens)
        ids, is_image, image_at, places, seen, firsts, slot_mapping, pack_index = rows[:_NUM_ROWS]
        positions = rows[_NUM_ROWS:] if self._num_axes > 1 else rows[_NUM_ROWS]
        unpack_index = self._indexes[num_rows * shape.num_tokens :]
        hidden = self.model.embed_tokens(ids)
        images = self.model.embed_features(self._features)[image_at]
        hidden = torch.where(is_image.bool()[:, None], images, hidden)
        folds_heads, bias = not takes_groups(hidden), self._bias(unpack_index, places, seen, firsts, hidden)
        attention = SlotAttention(
            pool=self.pool,
            shape=shape,
            slot_mapping=slot_mapping,
            unpack_index=unpack_index,
            pack_index=pack_index,
            bias=bias.repeat(1, 1, self._num_groups, 1) if folds_heads else bias,
            folds_heads=folds_heads,
        )
        with sdpa_kernel(_KERNELS, set_priority=True):
            return self._read_out(self._layers(hidden, positions, attention))

    def _bias(self, unpack_index: Tensor, places: Tensor, seen: Tensor, firsts: Tensor, like: Tensor) -> Tensor:
        """Return the mask ``[B, 1, L, C]`` of the queries; see ``StreamTokens``."""
        shape = self.shape

        def unpack(row: Tensor) -> Tensor:
            return row[unpack_index].view(shape.num_slots, 1, shape.query_len, 1)

        keys = torch.arange(shape.context_len, device=places.device)
        is_hidden = keys > unpack(places)
        if shape.has_branches:
            is_hidden |= (keys >= unpack(seen)) & (keys < unpack(firsts))
        bias = torch.zeros(is_hidden.shape, dtype=like.dtype, device=like.device)
        return bias.masked_fill_(is_hidden, -torch.inf)

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Return probabilities and most likely next tokens at all positions."""
        spec = self.readout_spec
        shape = self.shape
        needs_logits = shape.needs_tokens or shape.has_branches or spec.silent_id is not None
        logits = self.model.token_logits(hidden) if needs_logits else None
        if shape.has_branches or reads_decisions(self.model, spec):
            rows = [*decision_probs(self.model, hidden, spec, logits=logits)]
        else:
            rows = [*hidden.new_zeros(2, len(hidden), dtype=torch.double)]
        if self.shape.needs_tokens:
            assert logits is not None
            self.logits = [logits.index_fill(1, self._suppress_tokens, -torch.inf)]
            if self._suppress_at_images is not None:
                self.logits.append(self.logits[0].index_fill(1, self._suppress_at_images, -torch.inf))
            rows += [allowed.argmax(-1).double() for allowed in self.logits]
        return torch.stack(rows)

"""A forward pass with static shapes: tokens of many streams in, probabilities and next tokens out, on the device.

As in ``engine.inference.runner``, the tokens of all streams run as one sequence ``[N, D]`` through everything except
attention. Here all sizes are padded to those of a ``BucketShape``, and attention sees a padded context under a mask.
All inputs that change between passes are in buffers at fixed addresses. So a pass can be captured once and replayed
(see ``engine.inference.cuda_graphs``). Padding is written to the padding row of the pool and never read.

Worked example: a pool of capacity 64. The stream in slot 0 feeds 3 tokens after 10, the stream in slot 1 feeds 1 token
after 20. The bucket has ``N`` = 4 tokens, ``B`` = 2 slots, ``L`` = 4 queries per slot and ``C`` = 64 keys::

    places        10 11 12 20            places in the contexts
    positions     10 11 12 20            rotary positions: the places, unless the model has its own
    slot_mapping  10 11 12 84            pool rows to write: slot * 64 + position
    unpack_index   0  1  2  0 | 3 0 0 0  [B * L]: packed token of each query; padding takes token 0
    pack_index     0  1  2  4            [N]: query of each packed token: slot * L + offset

Attention gathers its queries ``[B, L]`` with ``unpack_index`` and returns to ``[N]`` with ``pack_index``, which skips
the results of padded queries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from stepscope.engine.inference.kernels import Rotate
from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.readout import ReadoutSpec, decision_probs
from stepscope.engine.model.attention import attend
from stepscope.engine.model.vision_language import VisionLanguageModel

Inputs = Sequence[int | Tensor]
"""Inputs of one stream: token ids, and features ``[tokens_per_frame, F]`` of frames."""
_KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN's is several times as fast as the others where queries are few, and needs a plan for each shape."""
_QUERY_LENS = (1, 2, 4, 8, 32, 64, 128, 256, 512)
"""Bucket sizes of ``L``. Few up to 32, where the time of a pass is that of reading the weights."""


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


def takes_groups(states: Tensor) -> bool:
    """Return whether cuDNN's attention takes the query heads of one key head as they are.

    With a single query it is then twice as fast as over folded heads.
    """
    return states.is_cuda and states.element_size() == 2 and torch.cuda.get_device_capability(states.device) >= (8, 0)


def reads_decisions(model: VisionLanguageModel, spec: ReadoutSpec) -> bool:
    """Return whether a step reads decisions: from heads or a silent token. Answers are read from branches."""
    return spec.silent_id is not None or (model.has_heads and spec.answer_ids is None)


def pick_bucket(
    lengths: Sequence[int], caches: Sequence[SlotKVCache], *, needs_tokens: bool, min_context: int, max_tokens: int
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

    A call returns float64 ``[2, N]``: speak probabilities, update probabilities. With next tokens it has a third row
    for their ids, and perhaps a fourth for those that open a turn at an image.
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
        self._indexes = torch.zeros(7 * n + shape.num_slots * shape.query_len, dtype=torch.long, device=device)
        self._features = torch.zeros(n, model.feature_dim, dtype=model.dtype, device=device)
        self._num_groups = model.text_model.config.num_attention_heads // pool.keys[0].shape[1]
        own = model.place((0,), 0)
        self._num_axes = len(own[0]) if own else 0
        self._suppress_tokens = torch.tensor(readout_spec.suppress_tokens, dtype=torch.long, device=device)
        at_images = readout_spec.suppress_at_images
        self._suppress_at_images = torch.tensor(at_images, dtype=torch.long, device=device) if at_images else None

    def fill(self, inputs: Sequence[Inputs], caches: Sequence[SlotKVCache]) -> None:
        """Write the inputs of the streams into the buffers: all indexes in one copy, features in a second."""
        n, query_len = self.shape.num_tokens, self.shape.query_len
        ids, is_image, image_at = list[int](), list[int](), list[int]()
        places, positions, slot_mapping, pack_index = list[int](), list[int](), list[int](), list[int]()
        unpack_index = [0] * (self.shape.num_slots * query_len)
        images: list[Tensor] = []
        for pieces, cache in zip(inputs, caches, strict=True):
            first = len(ids)
            for piece in pieces:
                count = 1 if isinstance(piece, int) else len(piece)
                ids += [piece if isinstance(piece, int) else 0] * count
                is_image += [int(not isinstance(piece, int))] * count
                image_at += [0] if isinstance(piece, int) else range(count * len(images), count * (len(images) + 1))
                images += [] if isinstance(piece, int) else [piece]
            start, length = cache.length, len(ids) - first
            row, query = cache.slot * self.pool.capacity + start, cache.slot * query_len
            places += range(start, start + length)
            positions += range(cache.next_position, cache.next_position + length)
            slot_mapping += range(row, row + length)
            pack_index += range(query, query + length)
            unpack_index[query : query + length] = range(first, len(ids))
        padding = [0] * (n - len(ids))
        indexes = [
            *(*ids, *padding, *is_image, *padding, *image_at, *padding, *places, *padding, *positions, *padding),
            *(*slot_mapping, *(self.pool.padding_row for _ in padding), *pack_index, *padding, *unpack_index),
        ]
        pinned = torch.tensor(indexes, pin_memory=self._indexes.is_cuda)
        self._indexes.copy_(pinned, non_blocking=True)
        if images:
            features = torch.cat(images)
            self._features[: len(features)].copy_(features, non_blocking=True)

    def __call__(self) -> Tensor:
        """Run the pass and write its keys and values. A second call with the same buffers changes nothing."""
        n = self.shape.num_tokens
        ids, is_image, image_at, places, positions, slot_mapping, pack_index = self._indexes[: 7 * n].view(7, n)
        unpack_index = self._indexes[7 * n :]
        hidden = self.model.embed_tokens(ids)
        if self.model.has_fixed_frames:
            images = self.model.embed_frames(self._features)[image_at]
            hidden = torch.where(is_image.bool()[:, None], images, hidden)
        if self._num_axes:  # of a text, all axes are the same
            positions = positions.expand(self._num_axes, -1)
        folds_heads, bias = not takes_groups(hidden), self._bias(places[unpack_index], hidden)
        attention = SlotAttention(
            pool=self.pool,
            shape=self.shape,
            slot_mapping=slot_mapping,
            unpack_index=unpack_index,
            pack_index=pack_index,
            bias=bias.repeat(1, 1, self._num_groups, 1) if folds_heads else bias,
            folds_heads=folds_heads,
        )
        with sdpa_kernel(_KERNELS, set_priority=True):
            return self._read_out(self._layers(hidden, positions, attention))

    def _bias(self, places: Tensor, like: Tensor) -> Tensor:
        """Return the causal mask ``[B, 1, L, C]``: a query at place ``p`` sees the keys ``0 ... p``."""
        shape = self.shape
        keys = torch.arange(shape.context_len, device=places.device)
        is_hidden = keys > places.view(shape.num_slots, 1, shape.query_len, 1)
        bias = torch.zeros(is_hidden.shape, dtype=like.dtype, device=like.device)
        return bias.masked_fill_(is_hidden, -torch.inf)

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Return probabilities and most likely next tokens at all positions."""
        spec = self.readout_spec
        logits = self.model.token_logits(hidden) if self.shape.needs_tokens or spec.silent_id is not None else None
        if reads_decisions(self.model, spec):
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

"""A forward pass with static shapes: tokens of many streams in, probabilities and next tokens out, on the device.

As in ``engine.inference.runner``, the tokens of all streams run as one sequence ``[N, D]`` through everything except
attention. Here all sizes are padded to those of a ``BucketShape``, and attention sees a padded context under a mask.
All inputs that change between passes are in buffers at fixed addresses. So a pass can be captured once and replayed
(see ``engine.inference.cuda_graphs``). Padding is written to the padding row of the pool and never read.

Worked example: a pool of capacity 64. The stream in slot 0 feeds 3 tokens after 10, the stream in slot 1 feeds 1 token
after 20. The bucket has ``N`` = 4 tokens, ``B`` = 2 slots, ``L`` = 4 queries per slot and ``C`` = 64 keys::

    positions     10 11 12 20            rotary positions
    slot_mapping  10 11 12 84            pool rows to write: slot * 64 + position
    unpack_index   0  1  2  0 | 3 0 0 0  [B * L]: packed token of each query; padding takes token 0
    pack_index     0  1  2  4            [N]: query of each packed token: slot * L + offset

Attention gathers its queries ``[B, L]`` with ``unpack_index`` and returns to ``[N]`` with ``pack_index``, which skips
the results of padded queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaModel

from stepscope.engine.inference.kv_pool import KVCachePool, SlotKVCache
from stepscope.engine.inference.readout import ReadoutSpec, decision_probs
from stepscope.engine.model.attention import attend, forward_layers, has_fixed_rotation
from stepscope.engine.model.vision_language import VisionLanguageModel

Inputs = Sequence[int | Tensor]
"""Inputs of one stream: token ids, and features ``[tokens_per_frame, F]`` of frames."""
_QUERY_LENS = (1, 2, 4, 8, 32, 64, 128, 512)
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
    """Whether next tokens are computed."""


def is_supported(model: VisionLanguageModel) -> bool:
    """Return whether the text model is a Llama whose rotary embedding does not depend on the length."""
    text = model.text_model
    return model.supports_graphs and isinstance(text, LlamaModel) and has_fixed_rotation(text)


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
        num_tokens=min(_double_until(num_slots, sum(lengths)), num_slots * query_len),
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
class _SlotAttention:
    """Attention over the slots of a pool, as a ``LayerAttention``; the module docstring has the index tensors."""

    pool: KVCachePool
    shape: BucketShape
    slot_mapping: Tensor
    unpack_index: Tensor
    pack_index: Tensor
    bias: Tensor
    """The causal mask ``[B, 1, groups * L, C]``."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float) -> Tensor:
        shape = self.shape
        self.pool.write(layer, self.slot_mapping, keys.transpose(0, 1), values.transpose(0, 1))
        by_slot = queries[:, self.unpack_index].unflatten(1, (shape.num_slots, shape.query_len)).transpose(0, 1)
        cached = self.pool.read(layer, num_slots=shape.num_slots, context_len=shape.context_len)
        return attend(by_slot, *cached, bias=self.bias, scale=scale).flatten(0, 1)[self.pack_index]


class StaticStep:
    """A pass of one shape over the slots of a pool: ``fill`` its buffers, then call it.

    A call returns float64 ``[2, N]``: speak probabilities, update probabilities. With next tokens it has a third row
    for their ids, and perhaps a fourth for those that open a turn at an image.
    """

    def __init__(
        self, model: VisionLanguageModel, pool: KVCachePool, *, shape: BucketShape, readout_spec: ReadoutSpec
    ) -> None:
        self.model, self.pool, self.shape, self.readout_spec = model, pool, shape, readout_spec
        n, device = shape.num_tokens, model.device
        self._indexes = torch.zeros(6 * n + shape.num_slots * shape.query_len, dtype=torch.long, device=device)
        self._features = torch.zeros(n, model.feature_dim, dtype=model.dtype, device=device)
        self._suppress_tokens = torch.tensor(readout_spec.suppress_tokens, dtype=torch.long, device=device)
        at_images = readout_spec.suppress_at_images
        self._suppress_at_images = torch.tensor(at_images, dtype=torch.long, device=device) if at_images else None
        self._num_kv_groups = model.text_model.config.num_attention_heads // pool.keys[0].shape[1]

    def fill(self, inputs: Sequence[Inputs], caches: Sequence[SlotKVCache]) -> None:
        """Write the inputs of the streams into the buffers: all indexes in one copy, features in a second."""
        n, query_len = self.shape.num_tokens, self.shape.query_len
        ids, is_image, image_at = list[int](), list[int](), list[int]()
        positions, slot_mapping, pack_index = list[int](), list[int](), list[int]()
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
            positions += range(start, start + length)
            slot_mapping += range(row, row + length)
            pack_index += range(query, query + length)
            unpack_index[query : query + length] = range(first, len(ids))
        padding = [0] * (n - len(ids))
        indexes = [
            *(*ids, *padding, *is_image, *padding, *image_at, *padding, *positions, *padding),
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
        ids, is_image, image_at, positions, slot_mapping, pack_index = self._indexes[: 6 * n].view(6, n)
        unpack_index = self._indexes[6 * n :]
        images = self.model.embed_frames(self._features)[image_at]
        hidden = torch.where(is_image.bool()[:, None], images, self.model.embed_tokens(ids))
        attention = _SlotAttention(
            pool=self.pool,
            shape=self.shape,
            slot_mapping=slot_mapping,
            unpack_index=unpack_index,
            pack_index=pack_index,
            bias=self._bias(positions[unpack_index], hidden),
        )
        return self._read_out(forward_layers(self.model.text_model, hidden, positions, attention))

    def _bias(self, positions: Tensor, like: Tensor) -> Tensor:
        """Return the causal mask ``[B, 1, groups * L, C]``: a query at position ``p`` sees the keys ``0 ... p``."""
        shape = self.shape
        keys = torch.arange(shape.context_len, device=positions.device)
        is_hidden = keys > positions.view(shape.num_slots, 1, shape.query_len, 1)
        bias = torch.zeros(is_hidden.shape, dtype=like.dtype, device=like.device)
        bias = bias.masked_fill_(is_hidden, -torch.inf)
        return bias if self._num_kv_groups == 1 else bias.repeat(1, 1, self._num_kv_groups, 1)

    def _read_out(self, hidden: Tensor) -> Tensor:
        """Return probabilities and most likely next tokens at all positions."""
        spec = self.readout_spec
        logits = self.model.token_logits(hidden) if self.shape.needs_tokens or spec.silent_id is not None else None
        rows = [*decision_probs(self.model, hidden, spec, logits=logits)]
        if self.shape.needs_tokens:
            assert logits is not None
            allowed = logits.index_fill(1, self._suppress_tokens, -torch.inf)
            rows.append(allowed.argmax(-1).double())
            if self._suppress_at_images is not None:
                rows.append(allowed.index_fill(1, self._suppress_at_images, -torch.inf).argmax(-1).double())
        return torch.stack(rows)

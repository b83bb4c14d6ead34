"""A pool of KV caches at fixed addresses, so that a captured CUDA graph can read and write them.

Each stream gets one *slot* of ``capacity`` tokens. A layer's buffer is ``[num_slots * capacity + 1, heads, head_dim]``,
and zero at first. Token ``p`` of slot ``s`` is row ``s * capacity + p``. With a capacity of 64, token 3 of slot 2 is
row 131. The last row takes the writes of padding and is never read. To crop or extend a slot's cache, only a counter
on the host changes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from stepscope.engine.model.kv_cache import KVCache, KVCacheLayer
from stepscope.engine.model.vision_language import VisionLanguageModel


class KVCachePool:
    """Slots for the KV caches of several streams of one model.

    It has ``num_slots`` slots, one for each stream at once, of ``capacity`` tokens.
    """

    def __init__(self, model: VisionLanguageModel, *, num_slots: int, capacity: int) -> None:
        text = model.text_model
        self.num_slots, self.capacity = num_slots, capacity
        own = model.place((0,), 0)
        self.num_axes = 0 if own is None else len(own[0])
        """Axes of the rotary positions of a model that has its own; 0 where they are the places in the cache."""
        self._free = list(range(num_slots))

        def buffers() -> list[Tensor]:
            sizes = [(a.config.num_key_value_heads, a.head_dim) for a in (layer.self_attn for layer in text.layers)]
            num_rows = num_slots * capacity + 1
            return [torch.zeros(num_rows, *size, dtype=model.dtype, device=model.device) for size in sizes]

        self.keys, self.values = buffers(), buffers()

    @property
    def padding_row(self) -> int:
        """The row that padding is written to."""
        return self.num_slots * self.capacity

    def acquire(self, cache: KVCache | None = None) -> "SlotKVCache":
        """Return an empty cache in the lowest free slot, or a copy of ``cache`` there."""
        assert self._free, "all slots are in use"
        acquired = SlotKVCache(self, min(self._free))
        self._free.remove(acquired.slot)
        for buffer in (*self.keys, *self.values):
            self._slot_rows(buffer, acquired.slot).zero_()  # a mask hides old contents, unless they are nan
        if cache is not None:
            cache.copy_to(acquired)
        return acquired

    def release(self, cache: "SlotKVCache") -> None:
        """Free the slot of a cache, which must not be used afterwards."""
        if cache.slot not in self._free:
            self._free.append(cache.slot)

    def write(self, layer: int, slot_mapping: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write keys and values ``[N, heads, head_dim]`` of a layer to the rows ``slot_mapping [N]``."""
        self.keys[layer].index_copy_(0, slot_mapping, keys)
        self.values[layer].index_copy_(0, slot_mapping, values)

    def read(self, layer: int, *, num_slots: int, context_len: int) -> tuple[Tensor, Tensor]:
        """Return the first keys and values of the first slots: ``[num_slots, heads, context_len, head_dim]``."""
        size = (num_slots, self.capacity)
        keys, values = (
            buffer[: num_slots * self.capacity].unflatten(0, size)[:, :context_len].transpose(1, 2)
            for buffer in (self.keys[layer], self.values[layer])
        )
        return keys, values

    def slot_layers(self, slot: int) -> list[KVCacheLayer]:
        """Return the layers of a slot's cache, as views of the pool."""
        return [
            KVCacheLayer(
                (self._slot_rows(keys, slot).transpose(0, 1)[None], self._slot_rows(values, slot).transpose(0, 1)[None])
            )
            for keys, values in zip(self.keys, self.values, strict=True)
        ]

    def _slot_rows(self, buffer: Tensor, slot: int) -> Tensor:
        return buffer[slot * self.capacity : (slot + 1) * self.capacity]


class SlotKVCache(KVCache):
    """The KV cache of one stream, in a slot of a pool."""

    def __init__(self, pool: KVCachePool, slot: int) -> None:
        super().__init__(0)
        self.pool, self.slot = pool, slot
        self.layers = pool.slot_layers(slot)

    def advance(self, count: int, ends: Sequence[int] = ()) -> None:
        """Count ``count`` tokens that a static step has written into the slot; ``ends`` are those of ``KVCache``."""
        self.ends += ends
        for layer in self.layers:
            layer.length += count

    def detached(self) -> KVCache:
        """Return a copy that outlives the slot."""
        return self.fork()

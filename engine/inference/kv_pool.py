"""Keys and values at places that never move: an arena of slots, one for each stream, that a captured step can name.

A layer's buffer is ``[slots * capacity + 1, heads, width]``, zeros at first. A slot's cache is cropped and grows by
counting, on the host. The one place behind the slots takes what is written for padding, and no one looks at it.
"""

import torch
from torch import Tensor

from engine.model.kv_cache import KVCache, KVCacheLayer
from engine.model.smolvlm import StreamingModel


class Arena:
    """Slots for the caches of several streams of one model.

    Args:
        model: The model.
        rows: Slots.
        capacity: Tokens of a slot.
    """

    def __init__(self, model: StreamingModel, *, rows: int, capacity: int) -> None:
        text = model.vlm.model.text_model
        self.rows, self.capacity = rows, capacity
        self._free = list(range(rows))

        def buffers() -> list[Tensor]:
            sizes = [(a.config.num_key_value_heads, a.head_dim) for a in (layer.self_attn for layer in text.layers)]
            places = rows * capacity + 1
            return [torch.zeros(places, *size, dtype=model.dtype, device=model.device) for size in sizes]

        self.keys, self.values = buffers(), buffers()

    @property
    def nowhere(self) -> int:
        """The place that padding is written to."""
        return self.rows * self.capacity

    def take(self, cache: KVCache | None = None) -> "FixedCache":
        """Take the lowest free slot, with the contents of another cache, if there is one."""
        assert self._free, "no more streams run at once than there are slots"
        taken = FixedCache(self, min(self._free))
        self._free.remove(taken.slot)
        for buffer in (*self.keys, *self.values):
            self._row(buffer, taken.slot).zero_()  # a mask hides what is left there, unless it is nan
        if cache is not None:
            cache.copy_to(taken)
        return taken

    def give_back(self, cache: "FixedCache") -> None:
        """Free a slot; its cache is not to be used any more."""
        if cache.slot not in self._free:
            self._free.append(cache.slot)

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write keys and values ``[N, heads, width]`` of a layer at places ``[N]``."""
        self.keys[layer].index_copy_(0, places, keys)
        self.values[layer].index_copy_(0, places, values)

    def read(self, layer: int, *, rows: int, context: int) -> tuple[Tensor, Tensor]:
        """Return the first ``context`` keys and values of the first slots: ``[rows, heads, context, width]``."""
        size = (rows, self.capacity)
        keys, values = (
            buffer[: rows * self.capacity].unflatten(0, size)[:, :context].transpose(1, 2)
            for buffer in (self.keys[layer], self.values[layer])
        )
        return keys, values

    def layers(self, slot: int) -> list[KVCacheLayer]:
        """Return the layers of a slot's cache."""
        return [
            KVCacheLayer((self._row(keys, slot).transpose(0, 1)[None], self._row(values, slot).transpose(0, 1)[None]))
            for keys, values in zip(self.keys, self.values, strict=True)
        ]

    def _row(self, buffer: Tensor, slot: int) -> Tensor:
        return buffer[slot * self.capacity : (slot + 1) * self.capacity]


class FixedCache(KVCache):
    """The cache of one stream, in a slot of an arena."""

    def __init__(self, arena: Arena, slot: int) -> None:
        super().__init__(0)
        self.arena, self.slot = arena, slot
        self.layers = arena.layers(slot)

    def advance(self, count: int) -> None:
        """Take note that a step has written ``count`` tokens."""
        for layer in self.layers:
            layer.length += count

    def detached(self) -> KVCache:
        """Return a copy that may be kept when the slot is given back."""
        return self.fork()

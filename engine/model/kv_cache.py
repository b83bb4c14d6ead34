"""The KV cache of one stream: append, crop, fork. It does not depend on a model.

Each layer keeps keys and values ``[1, heads, capacity, width]`` in buffers that double when they are full. Appending
copies only the new tokens; cropping only changes the length.
"""

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class KVCacheLayer(DynamicLayer):
    """One layer's keys and values: the filled part of two buffers, which grow unless they are passed to the layer."""

    def __init__(self, buffers: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__()
        self.length = 0
        self._buffers, self._is_fixed = buffers, buffers is not None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values ``[1, heads, L, width]``; return all of them, ``[1, heads, length, width]``."""
        needed = self.length + key_states.shape[-2]
        if self._buffers is None or needed > self._buffers[0].shape[-2]:
            assert not self._is_fixed, "a context never outgrows max_seq_len"
            self._grow(key_states, value_states, capacity=max(256, 2 * needed))
        assert self._buffers is not None
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., self.length : needed, :] = new
        self.length, self.is_initialized = needed, True
        keys, values = (buffer[..., :needed, :] for buffer in self._buffers)
        return keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens held."""
        return self.length

    @property
    def num_bytes(self) -> int:
        """Memory of its buffers, in bytes."""
        return sum(buffer.nbytes for buffer in self._buffers or ())

    def copy_to(self, other: "KVCacheLayer") -> None:
        """Append all tokens to ``other``, which shares no memory with this layer."""
        if self._buffers is not None and self.length:
            keys, values = (buffer[..., : self.length, :] for buffer in self._buffers)
            other.update(keys, values)

    def _grow(self, keys: Tensor, values: Tensor, *, capacity: int) -> None:
        new = tuple(x.new_empty((*x.shape[:-2], capacity, x.shape[-1])) for x in (keys, values))
        if self._buffers is not None:
            for old, buffer in zip(self._buffers, new, strict=True):
                buffer[..., : self.length, :] = old[..., : self.length, :]
        self._buffers = (new[0], new[1])


class KVCache(Cache):
    """Keys and values of the tokens fed so far."""

    def __init__(self, num_layers: int) -> None:
        super().__init__(layers=[KVCacheLayer() for _ in range(num_layers)])

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return int(self.get_seq_length())

    @property
    def num_bytes(self) -> int:
        """Allocated memory in bytes, including unused capacity."""
        return sum(layer.num_bytes for layer in self.layers)

    def crop_to(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises ``ValueError`` when fewer are held."""
        if not 0 <= length <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens and cannot be cropped to {length}")
        if length < self.length:
            for layer in self.layers:
                layer.length = length

    def detached(self) -> "KVCache":
        """Return a cache that stays valid after its stream has ended: this one, since it owns its buffers."""
        return self

    def fork(self) -> "KVCache":
        """Return an independent copy."""
        copy = KVCache(len(self.layers))
        self.copy_to(copy)
        return copy

    def copy_to(self, other: "KVCache") -> None:
        """Append all tokens to ``other``."""
        for layer, target in zip(self.layers, other.layers, strict=True):
            layer.copy_to(target)

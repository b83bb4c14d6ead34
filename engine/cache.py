"""The KV cache of one stream: append, crop, length, fork. It knows no model.

Each layer keeps keys and values ``[1, heads, capacity, width]`` in buffers that double when they are full, so
appending costs the new tokens only, and cropping costs nothing.
"""

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class _Layer(DynamicLayer):
    """One layer's keys and values: views of the filled part of two buffers."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values ``[1, heads, L, width]`` and return all that are held."""
        length = self.get_seq_length()
        needed = length + key_states.shape[-2]
        if self._buffers is None or needed > self._buffers[0].shape[-2]:
            self._grow(key_states, value_states, length=length, capacity=max(256, 2 * needed))
        assert self._buffers is not None
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[..., length:needed, :] = new
        self._show(needed)
        return self.keys, self.values

    def cut(self, length: int) -> None:
        """Forget everything after ``length`` tokens."""
        if self._buffers is not None:
            self._show(length)

    def copy(self) -> "_Layer":
        """Return a layer of the same contents that shares no memory."""
        twin = _Layer()
        if self._buffers is not None:
            length = self.get_seq_length()
            twin._buffers = (self._buffers[0].clone(), self._buffers[1].clone())
            twin._show(length)
        return twin

    def _grow(self, keys: Tensor, values: Tensor, *, length: int, capacity: int) -> None:
        new = tuple(x.new_empty((*x.shape[:-2], capacity, x.shape[-1])) for x in (keys, values))
        if self._buffers is not None:
            for old, buffer in zip(self._buffers, new, strict=True):
                buffer[..., :length, :] = old[..., :length, :]
        self._buffers = (new[0], new[1])

    def _show(self, length: int) -> None:
        assert self._buffers is not None
        self.keys, self.values = (buffer[..., :length, :] for buffer in self._buffers)
        self.is_initialized = True


class KVCache(Cache):
    """Keys and values of the tokens fed so far."""

    def __init__(self, num_layers: int) -> None:
        super().__init__(layers=[_Layer() for _ in range(num_layers)])

    @property
    def length(self) -> int:
        """Tokens held."""
        return int(self.get_seq_length())

    def crop_to(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises ``ValueError`` when fewer are held."""
        if not 0 <= length <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens and cannot be cropped to {length}")
        if length < self.length:
            for layer in self.layers:
                layer.cut(length)

    def fork(self) -> "KVCache":
        """Return a cache with the same contents that goes its own way."""
        twin = KVCache(0)
        twin.layers = [layer.copy() for layer in self.layers]
        return twin

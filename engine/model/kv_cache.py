"""The KV cache of one stream: append, crop, evict, fork. It does not depend on a model.

Each layer keeps keys and values ``[1, heads, capacity, width]`` in buffers that double when they are full. Appending
copies only the new tokens; cropping only changes the length; an eviction moves the last tokens forward.
"""

from collections.abc import Callable
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

    def read(self, length: int) -> list[Tensor]:
        """Return keys and values of the first ``length`` tokens, ``[1, heads, length, width]`` each."""
        return [buffer[..., :length, :] for buffer in self._buffers or ()]

    @property
    def num_bytes(self) -> int:
        """Memory of its buffers, in bytes."""
        return sum(buffer.nbytes for buffer in self._buffers or ())

    def copy_to(self, other: "KVCacheLayer", *, length: int | None = None, device: str | None = None) -> None:
        """Append the first ``length`` tokens, or all, to ``other``, which shares no memory with this layer."""
        length = self.length if length is None else length
        if self._buffers is not None and length:
            keys, values = (part.to(device) for part in self.read(length))
            other.update(keys, values)

    def evict(self, *, head: int, tail: int, shift_keys: Callable[[Tensor], Tensor] | None) -> None:
        """Keep the first ``head`` and the last ``tail`` tokens; see ``KVCache.evict``."""
        if self._buffers is not None and tail:
            keys, values = (buffer[..., self.length - tail : self.length, :].clone() for buffer in self._buffers)
            moved = (keys if shift_keys is None else shift_keys(keys), values)
            for buffer, kept in zip(self._buffers, moved, strict=True):
                buffer[..., head : head + tail, :] = kept
        self.length = head + tail

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
        self.ends: list[int] = []
        """The position after each token, for a model whose positions are not the places in the cache; else empty."""

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return int(self.get_seq_length())

    @property
    def next_position(self) -> int:
        """The position of the next token."""
        return self.position_at(self.length)

    def position_at(self, length: int) -> int:
        """Return the position after the first ``length`` tokens."""
        return self.ends[length - 1] if self.ends and length else length

    @property
    def num_bytes(self) -> int:
        """Allocated memory in bytes, including unused capacity."""
        return sum(layer.num_bytes for layer in self.layers)

    def crop_to(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises ``ValueError`` when fewer are held."""
        if not 0 <= length <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens and cannot be cropped to {length}")
        if length < self.length:
            del self.ends[length:]
            for layer in self.layers:
                layer.length = length

    def evict(
        self, *, head: int, tail: int, shift_keys: Callable[[Tensor], Tensor] | None = None, distance: int = 0
    ) -> None:
        """Keep the first ``head`` and the last ``tail`` tokens, and drop those between them.

        ``shift_keys`` takes the keys ``[1, heads, tail, width]`` of the last tokens to their new positions,
        ``distance`` earlier; by default they keep the rotation of their old ones. Values stay as they are: they were
        computed from dropped tokens, too.

        Raises ``ValueError`` when fewer tokens are held.
        """
        if head < 0 or tail < 0 or head + tail > self.length:
            raise ValueError(f"the cache holds {self.length} tokens and cannot keep {head} and {tail} of them")
        if head + tail < self.length:
            if self.ends:
                kept = self.ends[self.length - tail :]
                self.ends[head:] = [end - distance for end in kept]
            for layer in self.layers:
                layer.evict(head=head, tail=tail, shift_keys=shift_keys)

    def detached(self) -> "KVCache":
        """Return a cache that stays valid after its stream has ended: this one, since it owns its buffers."""
        return self

    def fork(self, *, length: int | None = None, device: str | None = None) -> "KVCache":
        """Return an independent copy of the first ``length`` tokens, or of all, on ``device`` if it is given."""
        copy = KVCache(len(self.layers))
        self.copy_to(copy, length=length, device=device)
        return copy

    def copy_to(self, other: "KVCache", *, length: int | None = None, device: str | None = None) -> None:
        """Append the first ``length`` tokens, or all, to ``other``, on ``device`` if it is given."""
        other.ends += self.ends[:length]
        for layer, target in zip(self.layers, other.layers, strict=True):
            layer.copy_to(target, length=length, device=device)

"""A store of KV caches by the prompts that they hold, so that only the new part of a prompt is computed. No torch.

An entry is a cache and its *key*: the pieces that were fed to it. ``acquire`` finds the entry with the longest common
prefix. A prompt that extends a free entry continues in place. One that diverges continues in a copy of the common
part while the budget has room, so that the other branch stays, and otherwise crops the entry.

A lease locks its entry. ``commit`` at the end of a turn makes the fed pieces the new key; any other exit crops the
cache to its committed length. Unlocked entries are evicted, least recently used first: from the device to the host,
then from the store. No entry is pinned.

An entry has an *owner*, and only prompts of this owner find it. Otherwise the number of reused tokens, and the time to
the first one, would tell a user what another one has written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Generic, Protocol, Self, TypeVar

from stepscope.engine.chat.prompts import ContextPiece, count_tokens


class PrefixCache(Protocol):
    """A cache that the store can keep; ``engine.model.kv_cache.KVCache`` is one."""

    @property
    def length(self) -> int:
        """Number of tokens held."""

    @property
    def num_bytes(self) -> int:
        """Allocated memory in bytes."""

    def crop_to(self, length: int) -> None:
        """Keep the first ``length`` tokens."""

    def fork(self, *, length: int | None = None, device: str | None = None) -> Self:
        """Return an independent copy of the first ``length`` tokens, on a device."""


C = TypeVar("C", bound=PrefixCache)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Contents and usage counts of a store."""

    num_entries: int = 0
    num_locked: int = 0
    device_bytes: int = 0
    host_bytes: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were found in the store."""
    prefilled_tokens: int = 0
    num_evicted: int = 0
    """Entries that were dropped from device and host."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry(Generic[C]):
    cache: C
    owner: str
    key: tuple[ContextPiece, ...] = ()
    committed: int = 0
    num_leases: int = 0
    used_at: int = 0
    is_on_host: bool = False


@dataclass(slots=True, eq=False)
class Lease(Generic[C]):
    """The exclusive use of one cache for one turn. Use it as a context manager."""

    _store: "PrefixStore[C]"
    _entry: _Entry[C]
    num_pieces: int
    """Pieces of the prompt that the cache holds."""
    num_cached: int
    _is_open: bool = field(default=True, init=False)

    @property
    def cache(self) -> C:
        """The cache to continue in."""
        return self._entry.cache

    def commit(self, pieces: Sequence[ContextPiece]) -> None:
        """Keep the cache under the pieces that were fed. Raises ``ValueError`` if their lengths differ."""
        self._store._commit(self._entry, tuple(pieces))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the entry, cropped to its committed length. A second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._store._release(self._entry)


class PrefixStore(Generic[C]):
    """Caches of one model on one device.

    ``budget_bytes`` bounds the unlocked entries on the device. ``host_budget_bytes`` bounds those that were moved to
    the host, from where they return to ``device``; 0 drops them instead.
    """

    def __init__(
        self, create: Callable[[], C], *, budget_bytes: int, host_budget_bytes: int = 0, device: str = "cpu"
    ) -> None:
        self._create, self._device = create, device
        self._budgets = {False: budget_bytes, True: host_budget_bytes}
        self._entries: list[_Entry[C]] = []
        self._lock = RLock()
        self._clock = self._cached = self._prefilled = self._evicted = 0

    def find(self, prompt: Sequence[ContextPiece], *, owner: str = "") -> int:
        """Return the number of prompt tokens of an owner that could be reused now."""
        with self._lock:
            _, num_pieces = self._find_longest(tuple(prompt), owner)
            return count_tokens(prompt[:num_pieces])

    def acquire(self, prompt: Sequence[ContextPiece], *, owner: str = "") -> Lease[C]:
        """Lease a cache that holds the longest known prefix of a prompt, among those of its owner.

        At least the last piece is left to feed, since its pass gives the first token of the answer.

        Raises:
            ValueError: An empty prompt.
        """
        if not prompt:
            raise ValueError("a prompt has at least one piece")
        key = tuple(prompt)
        with self._lock:
            source, num_pieces = self._find_longest(key, owner)
            num_tokens = count_tokens(key[:num_pieces])
            entry = self._prepare(source, key[:num_pieces], num_tokens, owner)
            entry.num_leases += 1
            self._touch(entry)
            self._cached += num_tokens
            self._prefilled += count_tokens(key[num_pieces:])
            return Lease(self, entry, num_pieces, num_tokens)

    @property
    def keys(self) -> tuple[tuple[str, tuple[ContextPiece, ...]], ...]:
        """The owner and the key of each entry."""
        with self._lock:
            return tuple((entry.owner, entry.key) for entry in self._entries)

    @property
    def stats(self) -> StoreStats:
        """Contents and use so far."""
        with self._lock:
            return StoreStats(
                num_entries=len(self._entries),
                num_locked=sum(entry.num_leases > 0 for entry in self._entries),
                device_bytes=self._num_bytes(is_on_host=False),
                host_bytes=self._num_bytes(is_on_host=True),
                cached_tokens=self._cached,
                prefilled_tokens=self._prefilled,
                num_evicted=self._evicted,
            )

    def _find_longest(self, prompt: tuple[ContextPiece, ...], owner: str) -> tuple[_Entry[C] | None, int]:
        """Return the owner's entry with the longest common prefix, and its pieces; free entries first among equals."""
        best, longest = None, 0
        limit = prompt[:-1]
        for entry in self._entries:
            if entry.owner != owner:
                continue
            common = count_common(entry.key, limit)
            is_better_lock = best is not None and common == longest and best.num_leases > entry.num_leases
            if common > longest or (common and is_better_lock):
                best, longest = entry, common
        return best, longest

    def _prepare(
        self, source: _Entry[C] | None, key: tuple[ContextPiece, ...], num_tokens: int, owner: str
    ) -> _Entry[C]:
        """Return an entry whose cache holds exactly ``key``: the source itself, a copy of it, or a new one."""
        if source is None:
            return _Entry(cache=self._create(), owner=owner)
        self._touch(source)
        is_extended = num_tokens == source.committed
        is_free = not source.num_leases and not source.is_on_host
        has_room = self._num_bytes(is_on_host=False) + source.cache.num_bytes <= self._budgets[False]
        if is_free and (is_extended or not has_room):
            source.cache.crop_to(num_tokens)
            source.key, source.committed = key, num_tokens
            return source
        device = self._device if source.is_on_host else None
        return _Entry(cache=source.cache.fork(length=num_tokens, device=device), owner=owner)

    def _commit(self, entry: _Entry[C], key: tuple[ContextPiece, ...]) -> None:
        with self._lock:
            num_tokens = count_tokens(key)
            if entry.cache.length != num_tokens or not key:
                raise ValueError(f"the cache holds {entry.cache.length} tokens, and the pieces have {num_tokens}")
            entry.key, entry.committed = key, num_tokens
            if entry not in self._entries:
                self._entries.append(entry)
            self._touch(entry)
            # drop entries that are a prefix of this one: it serves the same prompts
            self._entries = [
                other
                for other in self._entries
                if other is entry
                or other.owner != entry.owner
                or other.num_leases
                or other.key != key[: len(other.key)]
            ]

    def _release(self, entry: _Entry[C]) -> None:
        with self._lock:
            entry.num_leases -= 1
            if entry in self._entries:
                entry.cache.crop_to(entry.committed)
            self._evict()

    def _evict(self) -> None:
        """Move or drop the least recently used free entries until both budgets are met."""
        for is_on_host in (False, True):
            while self._num_bytes(is_on_host=is_on_host) > self._budgets[is_on_host]:
                oldest = min(
                    (entry for entry in self._entries if entry.is_on_host == is_on_host and not entry.num_leases),
                    key=lambda entry: entry.used_at,
                )
                if is_on_host or not self._budgets[True]:
                    self._entries.remove(oldest)
                    self._evicted += 1
                else:
                    oldest.cache, oldest.is_on_host = oldest.cache.fork(device="cpu"), True

    def _num_bytes(self, *, is_on_host: bool) -> int:
        """Return the bytes of the free entries on the device or on the host."""
        return sum(
            entry.cache.num_bytes for entry in self._entries if entry.is_on_host == is_on_host and not entry.num_leases
        )

    def _touch(self, entry: _Entry[C]) -> None:
        self._clock += 1
        entry.used_at = self._clock


def count_common(first: tuple[ContextPiece, ...], second: tuple[ContextPiece, ...]) -> int:
    """Return the length of the longest common prefix, by bisection over comparisons of slices."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

"""The invariants of a prefix store."""

from typing import Any

from stepscope.engine.chat.prefix_store import PrefixStore
from stepscope.engine.chat.prompts import count_tokens


def check_store(store: PrefixStore[Any]) -> None:
    """Raise ``AssertionError`` if an entry does not hold its key, or a budget is exceeded."""
    with store._lock:
        for entry in store._entries:
            assert entry.num_leases in (0, 1), "two leases share one cache"
            assert entry.committed == count_tokens(entry.key) > 0, "an entry lost count of its tokens"
            assert entry.cache.length >= entry.committed, "an entry lost committed tokens"
            assert entry.num_leases or entry.cache.length == entry.committed, "a free entry has a dirty tail"
        for is_on_host, budget in store._budgets.items():
            assert store._num_bytes(is_on_host=is_on_host) <= budget, "a budget is exceeded"

"""The recordings of all windows under one budget of memory: the least recently used ones are given up first.

A recording holds a run's frame embeddings and its KV cache, so that other thresholds run only what differs. Without
one a run is made again from its video, with the same results.
"""

from collections import OrderedDict
from threading import Lock
from weakref import ref

from app.player.session.live_run import LiveRun

DEFAULT_BUDGET_BYTES = 4 * 2**30
"""Recordings of all windows together, unless the page is started with another budget."""


class RecordingCache:
    """Which windows keep a recording, the least recently used first. It keeps no window alive."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._kept: OrderedDict[int, tuple[ref[LiveRun], int]] = OrderedDict()
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of all recordings that are kept."""
        with self._lock:
            self._drop_closed()
            return sum(size for _, size in self._kept.values())

    def keep(self, live: LiveRun) -> None:
        """Count the recording of a window as used now; give up others, or this one, until the budget is met."""
        with self._lock:
            self._kept.pop(id(live), None)
            self._drop_closed()
            if live.recording is None:
                return
            self._kept[id(live)] = ref(live), live.recording.num_bytes
            while sum(size for _, size in self._kept.values()) > self._budget_bytes:
                _, (oldest, _) = self._kept.popitem(last=False)
                if (window := oldest()) is not None:
                    window.recording = None

    def release(self, live: LiveRun) -> None:
        """Give up the recording of a window that was closed."""
        live.recording = None
        self.keep(live)

    def _drop_closed(self) -> None:
        for key in [key for key, (window, _) in self._kept.items() if window() is None]:
            del self._kept[key]

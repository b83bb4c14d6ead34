"""An LRU cache with one memory budget for the recordings of all windows.

A recording holds the frame embeddings and the KV cache of a run, so that a re-run with new thresholds computes only the
difference. Without a recording, the video is encoded again with identical results.
"""

from collections import OrderedDict
from threading import Lock
from weakref import ref

from stepscope.app.core.live_run import LiveRun

DEFAULT_BUDGET_BYTES = 4 * 2**30
"""Default budget for the recordings of all windows."""


class RecordingCache:
    """Evicts the least recently used recordings over a memory budget. Windows are held by weak references."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._kept: OrderedDict[int, tuple[ref[LiveRun], int]] = OrderedDict()
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of all cached recordings."""
        with self._lock:
            self._drop_closed()
            return sum(size for _, size in self._kept.values())

    def keep(self, live: LiveRun) -> None:
        """Mark the recording of a window as most recently used, and evict recordings until the budget is met.

        A recording that alone exceeds the budget is evicted too.
        """
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
        """Drop the recording of a window that was closed."""
        live.recording = None
        self.keep(live)

    def _drop_closed(self) -> None:
        for key in [key for key, (window, _) in self._kept.items() if window() is None]:
            del self._kept[key]

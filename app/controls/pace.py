"""The pace of a handler that yields views while it works."""

import math
import time
from typing import Final

UPDATE_INTERVAL_S: Final = 0.5
"""Minimum time between two views of one handler, in seconds.

For every view the browser walks over all components of the page. Views at the pace of fast work block it for minutes.
"""


class Pace:
    """When the next view is due: at least ``interval_s`` after the last one. The first is ``due_at_once``, or waits."""

    def __init__(self, interval_s: float, *, due_at_once: bool = True) -> None:
        self._interval_s = interval_s
        self._shown_s = -math.inf if due_at_once else time.perf_counter()

    def is_due(self) -> bool:
        """Return whether a view is due now; the interval then begins again."""
        now_s = time.perf_counter()
        if now_s - self._shown_s < self._interval_s:
            return False
        self._shown_s = now_s
        return True

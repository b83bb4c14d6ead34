"""The queue for the model that all windows share; a live session yields to waiting windows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stepscope.app.formatting import format_clock

DEFAULT_LIVE_MINUTES: Final = 10.0


@dataclass(slots=True, kw_only=True)
class ModelUse:
    """The live session that has the model, and how long it may keep it while others wait."""

    limit_s: float = 60 * DEFAULT_LIVE_MINUTES
    """Seconds after which a session ends if others wait; alone it has no limit."""
    list_waiting: Callable[[], Sequence[str]] = field(default=lambda: ())
    """The browser windows whose events wait for the model, by session hash, the first in the queue first."""
    now: Callable[[], float] = time.monotonic
    _began_s: float | None = None

    def begin_session(self) -> None:
        """Start the time of a session."""
        self._began_s = self.now()

    def end_session(self) -> None:
        """End it."""
        self._began_s = None

    @property
    def left_s(self) -> float | None:
        """Seconds until the session yields to others, at least 0; None without a session."""
        return None if self._began_s is None else max(0.0, self.limit_s - (self.now() - self._began_s))

    @property
    def must_yield(self) -> bool:
        """Whether the session has had its time and others wait."""
        return self.left_s == 0 and len(self.list_waiting()) > 0

    def describe_waiting(self) -> str:
        """Return a message with the number of waiting windows; empty if there are none."""
        count = len(set(self.list_waiting()))
        if count == 0 or self.left_s is None:
            return ""
        return f"Others wait for the model ({count}): this session ends in {format_clock(self.left_s)}."

    def describe_wait(self, browser: str = "") -> str:
        """Return a sentence for work that waits for the model, the latest of a browser window.

        Work of a window that is not in the queue comes after all others. Its own earlier work is not counted.
        """
        waiting, left_s = self.list_waiting(), self.left_s
        place = len(waiting) - 1 - waiting[::-1].index(browser) if browser in waiting else len(waiting)
        before = sum(other != browser for other in waiting[:place])
        position = f" {before} before you in the queue." if before else ""
        if left_s is None:
            return f"Waiting to start.{position}"
        when = f"within {format_clock(left_s)}" if left_s else "now"
        return f"Waiting to start: a live session has the model and ends {when}.{position}"

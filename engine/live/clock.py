"""The clock of live sessions, which tests replace."""

import time
from threading import Event
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock."""

    def now(self) -> float:
        """Return the time in seconds, from an arbitrary start."""

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Wait until the event is set, at most ``timeout_s`` seconds; return whether it is set."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the time in seconds, from an arbitrary start."""
        return time.monotonic()

    def wait(self, event: Event, timeout_s: float) -> bool:
        """Wait until the event is set, at most ``timeout_s`` seconds; return whether it is set."""
        return event.wait(timeout_s)

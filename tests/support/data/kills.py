"""Kills a process of a test at one of its steps, as a lost power supply would."""

import os
import signal
from collections.abc import Callable


def kill_at(number: int, *events: str) -> Callable[[str, tuple[object, ...]], None]:
    """Return an audit hook that kills the process at the n-th of these events; an ``open`` counts if it is to write."""
    left = [number]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in events and (event != "open" or arguments[1] == "w"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook

"""How times, states, turns and errors are written on the page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from eval.corrections import Wish

STATE_WORDS: Final = {"not_started": "○ not started", "in_progress": "◐ in progress", "completed": "● completed"}
STATE_DIFFERENCES: Final = {"behind": "behind the reference", "ahead": "ahead of the reference"}


def clock(time_s: float, *, digits: int = 0) -> str:
    """Write a time as ``m:ss``, with ``digits`` places after the second."""
    ticks = round(time_s * 10**digits)
    minutes, rest = divmod(ticks, 60 * 10**digits)
    width = 2 + digits + (digits > 0)
    return f"{minutes}:{rest / 10**digits:0{width}.{digits}f}"


def sentence(error: Exception | Warning | str) -> str:
    """Write an error as a sentence, with a file called by its name rather than its place on this machine."""
    text = str(error)
    path, colon, rest = text.partition(": ")
    text = f"{Path(path).name}: {rest}" if colon and Path(path).is_absolute() else text
    return text if text.endswith(".") else f"{text}."


def tell_wishes(wishes: Iterable[Wish]) -> str:
    """Write who wants what."""
    return ", ".join(f"{wish.reviewer}: {wish.value!r}" for wish in wishes)

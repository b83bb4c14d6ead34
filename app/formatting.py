"""How times, states, turns and errors are written on the page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from engine.io import replace_surrogates
from eval.annotations.corrected_samples import Proposal

STATE_WORDS: Final = {"not_started": "○ not started", "in_progress": "◐ in progress", "completed": "● completed"}
STATE_DIFFERENCES: Final = {"behind": "behind the reference", "ahead": "ahead of the reference"}


def clock(time_s: float, *, digits: int = 0) -> str:
    """Write a time as ``m:ss``, with ``digits`` places after the second."""
    ticks = round(time_s * 10**digits)
    minutes, rest = divmod(ticks, 60 * 10**digits)
    width = 2 + digits + (digits > 0)
    return f"{minutes}:{rest / 10**digits:0{width}.{digits}f}"


def sentence(error: Exception | Warning | str) -> str:
    """Write an error as a sentence, with a file called by its name rather than its place on this machine.

    It may quote a file or a program; half a surrogate pair becomes ``?``.
    """
    text = replace_surrogates(str(error))
    path, colon, rest = text.partition(": ")
    text = f"{Path(path).name}: {rest}" if colon and Path(path).is_absolute() else text
    return text if text.endswith(".") else f"{text}."


def tell_wishes(wishes: Iterable[Proposal]) -> str:
    """Write who wants what."""
    return ", ".join(f"{wish.reviewer}: {wish.value!r}" for wish in wishes)


LONGEST_ID: Final = 32
"""Characters of a video's id that a table shows as they are."""


def shorten_ids(ids: Iterable[str]) -> Mapping[str, str]:
    """Return a short name for each id that tells it from all others: of a long one only parts that not all share.

    An id that has no such name stays as it is.
    """
    return _shorten(tuple(dict.fromkeys(ids)))


@lru_cache(maxsize=32)
def _shorten(every: tuple[str, ...]) -> Mapping[str, str]:
    long = {one: [part for part in re.split(r"(?<=[_/ ])", one) if part] for one in every if len(one) > LONGEST_ID}
    shared = set.intersection(*map(set, long.values())) if len(long) > 1 else set()
    most = max(map(len, long.values()), default=0)
    for number in range(1, most + 1):
        names = {one: _keep(parts, shared, number) for one, parts in long.items()}
        if len({*names.values(), *(one for one in every if one not in long)}) == len(every):
            fuller = {one: _fill(parts, shared, number) for one, parts in long.items()}
            is_told = len({*fuller.values(), *(one for one in every if one not in long)}) == len(every)
            return {one: (fuller if is_told else names).get(one, one) for one in every}
    return {one: one for one in every}


def _fill(parts: Sequence[str], shared: set[str], number: int) -> str:
    """Keep at least ``number`` parts, and as many more as a short name holds."""
    names = [_keep(parts, shared, more) for more in range(number, len(parts) + 1)]
    return max((name for name in names[1:] if len(name) <= LONGEST_ID), key=len, default=names[0])


def _keep(parts: Sequence[str], shared: set[str], number: int) -> str:
    """Join the first ``number`` parts that not all share, with a sign where something is left out."""
    kept = [place for place, part in enumerate(parts) if part not in shared][:number]
    text, before = "", -1
    for place in kept:
        text += ("" if place == before + 1 else "…") + parts[place]
        before = place
    return text if before == len(parts) - 1 else f"{text.rstrip('_/ ')}…"

"""Text formatting shared by all tabs: times, states, scores, errors and short video ids."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from stepscope.engine.dialogue import format_clock as format_clock  # re-exported: all tabs format times
from stepscope.engine.errors import first_line
from stepscope.engine.io.files import replace_surrogates, show_turns
from stepscope.eval.annotations.corrected_samples import Proposal

STATE_WORDS: Final = {"not_started": "○ not started", "in_progress": "◐ in progress", "completed": "● completed"}
STATE_DIFFERENCES: Final = {"behind": "behind the reference", "ahead": "ahead of the reference"}


def format_rate(rate: float) -> str:
    """Return a rate such as ``12 frames/s``; below 10, with a decimal place."""
    return f"{rate:.{int(rate < 9.95)}f} frames/s"


def format_score(value: Any, *, is_count: bool = False) -> str:
    """Return a score as text, ``undefined`` for nan."""
    if not isinstance(value, int | float) or math.isnan(value):
        return "undefined"
    places = 0 if is_count or abs(value) >= 1000 else 3
    return f"{round(value, places) or 0.0:,.{places}f}"  # "or 0.0" turns -0.0 into 0.0


MAX_SENTENCE: Final = 600
"""Longer error messages are shown without their middle: a value in them may have thousands of letters."""


def as_sentence(error: Exception | Warning | str) -> str:
    """Return an error message as a sentence, with a leading absolute path shortened to the file name.

    A message over ``MAX_SENTENCE`` characters loses its middle. Unpaired surrogates become ``?``, and marks that turn
    the text escapes. The text of an ``OSError`` would show its number and the whole path.
    """
    text = first_line(error) if isinstance(error, OSError) else str(error)
    text = show_turns(replace_surrogates(text))
    path, colon, rest = text.partition(": ")
    text = f"{Path(path).name}: {rest}" if colon and Path(path).is_absolute() else text
    if len(text) > MAX_SENTENCE:
        text = f"{text[: MAX_SENTENCE - 200]} ... {text[-200:]}"
    return text if text.endswith(".") else f"{text}."


def name_files(text: str, paths: Iterable[Path]) -> str:
    """Return a text with the names of files in place of their paths, so that it shows no folder of the server."""
    for path in paths:
        text = text.replace(str(path), path.name)
    return text


def format_wishes(wishes: Iterable[Proposal]) -> str:
    """Return the conflicting values with their reviewers, such as ``ann: 'a', bob: 'b'``."""
    return ", ".join(f"{wish.reviewer}: {wish.value!r}" for wish in wishes)


MAX_ID_LENGTH: Final = 32
"""Ids up to this many characters are shown in full."""


def shorten_ids(ids: Iterable[str]) -> Mapping[str, str]:
    """Return a unique short name for each id.

    A long id keeps only parts that not all long ids have: beside ``assembly_action_both_9012-b02_9012``,
    ``assembly_action_both_9011-a01_9011`` becomes ``…9011-a01_9011``. If no unique short names exist, ids are kept.
    """
    return _shorten(tuple(dict.fromkeys(ids)))


@lru_cache(maxsize=32)
def _shorten(ids: tuple[str, ...]) -> Mapping[str, str]:
    long = {one: [part for part in re.split(r"(?<=[_/ ])", one) if part] for one in ids if len(one) > MAX_ID_LENGTH}
    shared = set.intersection(*map(set, long.values())) if len(long) > 1 else set()
    most = max(map(len, long.values()), default=0)
    for number in range(1, most + 1):
        names = {one: _keep(parts, shared, number) for one, parts in long.items()}
        if len({*names.values(), *(one for one in ids if one not in long)}) == len(ids):
            filled = {one: _fill(parts, shared, number) for one, parts in long.items()}
            is_unique = len({*filled.values(), *(one for one in ids if one not in long)}) == len(ids)
            return {one: (filled if is_unique else names).get(one, one) for one in ids}
    return {one: one for one in ids}


def _fill(parts: Sequence[str], shared: set[str], number: int) -> str:
    """Keep at least ``number`` distinguishing parts, and more while the name stays within ``MAX_ID_LENGTH``."""
    names = [_keep(parts, shared, more) for more in range(number, len(parts) + 1)]
    return max((name for name in names[1:] if len(name) <= MAX_ID_LENGTH), key=len, default=names[0])


def _keep(parts: Sequence[str], shared: set[str], number: int) -> str:
    """Join the first ``number`` distinguishing parts, with an ellipsis for each gap.

    Parts ``a_ b_ c_ d`` with ``b_`` shared and number 2 give ``a_…c…``.
    """
    kept = [index for index, part in enumerate(parts) if part not in shared][:number]
    text, last = "", -1
    for index in kept:
        text += ("" if index == last + 1 else "…") + parts[index]
        last = index
    return text if last == len(parts) - 1 else f"{text.rstrip('_/ ')}…"

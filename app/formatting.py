"""Text formatting shared by all tabs: times, states, scores, errors and short video ids."""

import math
import os
from collections.abc import Iterable, Mapping
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
    return text if text.endswith((".", "?")) else f"{text}."


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

    Long ids lose what all of them begin with: beside ``assembly_action_both_9012-b02_9012``,
    ``assembly_action_both_9011-a01_9011`` becomes ``…9011-a01_9011``. What is still long loses its end, or its
    beginning if that gives unique names; otherwise all ids are kept.
    """
    known = dict.fromkeys(ids)
    long = [one for one in known if len(one) > MAX_ID_LENGTH]
    shared = os.path.commonprefix([one[:-1] for one in long]) if len(long) > 1 else ""  # noqa: RUF071 (of letters)
    start = max(map(shared.rfind, "_/ ")) + 1
    for cut in (_cut_end, _cut_beginning):
        names = {one: cut(one, start) if len(one) > MAX_ID_LENGTH else one for one in known}
        if len(set(names.values())) == len(names):
            return names
    return {one: one for one in known}


def _cut_end(text: str, start: int) -> str:
    rest = text[start:]
    return f"{'…' if start else ''}{rest[:MAX_ID_LENGTH]}{'…' if len(rest) > MAX_ID_LENGTH else ''}"


def _cut_beginning(text: str, start: int) -> str:
    return f"…{text[start:][-MAX_ID_LENGTH:]}"

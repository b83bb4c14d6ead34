"""Files and text that leave or enter the program: atomic writes, JSON and CSV.

Texts from outside may hold half a surrogate pair, which Python and JSON can represent and UTF-8 cannot. Records of runs
keep such a text as it came, and JSON files escape it, so that it comes back. Where only UTF-8 is possible (in a model,
a table, XML, an answer to a browser) and in what splits and reviewers give, each half becomes ``?``.
"""

import csv
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # wide ones too
_HALVES = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return _HALVES.sub("?", text)


def replace_surrogates_in(content: Any) -> Any:
    """Return a JSON value in which every text is such that UTF-8 can hold it."""
    if isinstance(content, str):
        return replace_surrogates(content)
    if isinstance(content, Mapping):
        return {replace_surrogates_in(key): replace_surrogates_in(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [replace_surrogates_in(value) for value in content]
    return content


def to_json(content: object, *, indent: int | None = None) -> str:
    """Return JSON that UTF-8 can hold and that loads again as it was. Raises ``ValueError`` for nan and infinity."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _HALVES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def load_json(text: str) -> Any:
    """Return what a JSON text holds. Raises ``ValueError``, in one line, even for a text that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deep", text[:1], 0) from None


@contextmanager
def atomic_write(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` that takes its place, fsynced, when the block ends well.

    After an exception, or a kill, ``path`` is as it was before. A link is followed. Raises ``ValueError``, before the
    block begins, for a folder or a device.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder or a device; name a file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") if binary else os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def write_csv(
    path: Path, rows: Iterable[Mapping[str, str | float | None]], *, columns: Sequence[str] | None = None
) -> None:
    """Write rows as they come, whole or not at all; without ``columns`` they are those of the first row."""
    waiting = iter(rows)
    first = next(waiting, None)
    names = list(first or ()) if columns is None else list(columns)
    cells = ([to_cell(row.get(name)) for name in names] for row in (() if first is None else chain([first], waiting)))
    write_rows(path, chain([names], cells))


def write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows of cells that are harmless already, whole or not at all."""
    with atomic_write(path) as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all; nan becomes null."""
    with atomic_write(path) as file:
        file.write(to_json(_without_nan(content), indent=1) + "\n")


def to_cell(value: str | float | None) -> str:
    """Return a value as a CSV cell: harmless to a spreadsheet, and empty where it is unknown."""
    if isinstance(value, str):
        return escape_formula(replace_surrogates(value))
    return "" if value is None or math.isnan(value) else repr(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value

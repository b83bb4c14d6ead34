"""Scores as files and as a table in the terminal. An undefined score is an empty cell, and null in JSON."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.records import write_whole

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def write_csv(path: Path, rows: Sequence[Mapping[str, str | float]]) -> None:
    """Write rows of one set of columns, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    with write_whole(path) as file:
        file.write(text.getvalue())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all; nan becomes null."""
    with write_whole(path) as file:
        json.dump(_without_nan(content), file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def format_scores(scores: Mapping[str, float]) -> str:
    """Return the scores a line each, names to the left."""
    width = max(map(len, scores), default=0)
    return "\n".join(
        f"{name:{width}}  {'undefined' if math.isnan(value) else f'{value:.4f}'}" for name, value in scores.items()
    )


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return harmless(value)
    return "" if math.isnan(value) else repr(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value

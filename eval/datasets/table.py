"""Reads segment tables: with a header, or lines of one pattern; one file per video, or a column with the video."""

import re
import warnings
from collections.abc import Mapping, Sequence, Set
from io import StringIO
from typing import Any

import pandas as pd

from stepscope.engine.io.json_records import short_repr
from stepscope.eval.datasets.mappings import DatasetMapping, find_text
from stepscope.eval.datasets.rows import Row, make_video
from stepscope.eval.datasets.segments import AnnotatedVideo


def split_table(text: str) -> pd.DataFrame:
    """Return a table of texts, separated by tabs, semicolons or commas. Raises ``ValueError`` for uneven rows."""
    header = text.lstrip().partition("\n")[0]
    separator = max("\t;,", key=header.count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(StringIO(text), sep=separator, dtype=str, keep_default_na=False, index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise ValueError(f"the table cannot be read: {' '.join(str(error).split())}") from error
    return table.rename(columns=lambda name: str(name).strip())


def read_table(
    table: pd.DataFrame, name: Mapping[str, str], mapping: DatasetMapping, *, level: int
) -> list[AnnotatedVideo]:
    """Return the videos of a table; ``name`` has the fields that the name of the file gives."""
    if missing := list_missing({*table.columns}, mapping):
        raise ValueError(f"there is no column {missing[0]}; the columns are {', '.join(table.columns)[:300]}")
    records = table.to_dict(orient="records")
    rows = [
        Row(place=f"row {number}", fields={**name, **{str(key): value for key, value in record.items()}})
        for number, record in enumerate(records, start=1)
    ]
    return group_rows(rows, mapping, level=level)


def list_missing(columns: Set[str], mapping: DatasetMapping) -> list[str]:
    """Return the fields of a mapping for which there is no column."""
    needed = (mapping.start, mapping.end, mapping.label)
    return [path for path in needed if path and "{" not in path and columns.isdisjoint(path.split("|"))]


def read_lines(text: str, name: Mapping[str, str], mapping: DatasetMapping, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of a file whose lines have the pattern of a mapping. Raises ``ValueError`` for another line."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or (mapping.skip and re.fullmatch(mapping.skip, line)):
            continue
        match = re.fullmatch(mapping.line, line.strip("\r\n "))
        if match is None:
            raise ValueError(f"line {number} is no segment of {mapping.title or mapping.name}: {short_repr(line)}")
        rows.append(Row(place=f"line {number}", fields={**name, **match.groupdict(default="")}))
    return group_rows(rows, mapping, level=level)


def group_rows(rows: Sequence[Row], mapping: DatasetMapping, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of rows, each of which names its video."""
    by_video: dict[str, list[Row]] = {}
    for row in rows:
        by_video.setdefault(find_text(row.fields, mapping.video), []).append(row)
    return [make_video(of_video[0].fields, of_video, mapping, level=level) for of_video in by_video.values()]


def read_lengths(table: pd.DataFrame) -> dict[str, float] | None:
    """Return the lengths of videos in seconds by id, from a table without segments; None for any other table."""
    video = next((name for name in ("video_id", "recording_id", "video") if name in table), None)
    length = next((name for name in ("duration(sec)", "duration_s", "duration") if name in table), None)
    if video is None or length is None or any("start" in str(name).lower() for name in table):
        return None
    numbers: Any = pd.to_numeric(table[length], errors="coerce")
    return {str(key): float(value) for key, value in zip(table[video], numbers, strict=True) if 0 < value < 1e6}

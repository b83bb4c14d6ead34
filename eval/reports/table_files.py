"""Strict readers of the tables that ``eval.reports.scoring`` writes into a run folder.

Each reader raises ``FileNotFoundError`` for a missing file, and ``ValueError`` with file and field for an invalid one.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from stepscope.engine.io.files import finish_files, open_text, replace_surrogates_in, unescape_formula
from stepscope.engine.io.json_records import Count, Finite, read_record, reading
from stepscope.eval.reports.charts import read_charts
from stepscope.eval.runs.roots import RunDiagnosis, read_run_diagnosis

Row = Mapping[str, str | float]
Cells = Mapping[str, str | None]
"""The cells of a row by column; None for those that a short row lacks."""
T = TypeVar("T")
_TEXT_COLUMNS: Final = ("video_id", "error", "warning", "scoring")


class _Interval(TypedDict):
    low: Finite | None
    high: Finite | None


class _Metrics(BaseModel):
    model_config = ConfigDict(extra="allow")

    num_videos: Count = 0
    scores: dict[str, Finite | None]
    intervals: dict[str, _Interval]
    num_undefined: dict[str, Count] = {}
    errors: dict[str, str]
    warnings: dict[str, str] = {}
    text_problem: str | None = None


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """Read ``metrics.json``: the scores, None if undefined, and the settings."""
    finish_files(folder)
    return read_record(_Metrics, folder / "metrics.json").model_dump()


def read_video_rows(folder: Path) -> Sequence[Row]:
    """Read ``videos.csv``: a row per video, its scores nan if undefined."""
    return read_table(folder / "videos.csv", ("video_id", "error"), _read_row)


def read_table(path: Path, columns: Sequence[str], read: Callable[[Cells], T]) -> list[T]:
    """Read the rows of a CSV file, which must have these columns."""
    finish_files(path.parent)
    with reading(path), open_text(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise ValueError(f"the columns {', '.join(missing)} are missing")
        return [read({name: row[name] for name in reader.fieldnames or ()}) for row in reader]


def _read_row(row: Cells) -> Row:
    numbers = read_numbers({name: cell for name, cell in row.items() if name not in _TEXT_COLUMNS})
    return {name: numbers[name] if name in numbers else unescape_formula(cell or "") for name, cell in row.items()}


def read_numbers(row: Cells) -> Mapping[str, float]:
    """Return the numbers of a row; nan for an empty cell."""
    return {name: float(cell) if cell else math.nan for name, cell in row.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The scores of a run folder; empty fields before the run is scored."""

    rows: Sequence[Row] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    charts: Mapping[str, Any] = field(default_factory=dict)
    diagnosis: RunDiagnosis | None = None
    problems: tuple[str, ...] = ()
    """One sentence per unreadable file; its field is empty."""


def read_results(folder: Path) -> Results:
    """Read the tables of a run folder; missing and unreadable ones are empty. All texts can be encoded as UTF-8."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    readers: Mapping[str, Callable[[Path], Any]] = {
        "rows": read_video_rows,
        "metrics": read_metrics,
        "charts": read_charts,
        "diagnosis": read_run_diagnosis,
    }
    for name, read in readers.items():
        try:
            found[name] = replace_surrogates_in(read(folder))
        except FileNotFoundError:
            continue
        except ValueError as error:
            problems.append(str(error).replace(f"{folder}/", ""))
    return Results(**found, problems=tuple(problems))

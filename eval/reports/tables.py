"""Scores as files and as a table in the terminal. An undefined score is an empty cell, and null in JSON."""

import csv
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from engine.io import plain, to_json
from engine.records import write_whole
from eval.metrics.bootstrap import NO_INTERVAL, Interval
from eval.metrics.definitions import GROUPS, METRICS, Metric

_BETTER = {
    "higher": "higher is better",
    "lower": "lower is better",
    "near 0": "best near 0",
    "near 1": "best near 1",
    "neither": "",
}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # wide ones too


def harmless(text: str) -> str:
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
    with write_whole(path) as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, whole or not at all; nan becomes null."""
    with write_whole(path) as file:
        file.write(to_json(_without_nan(content), indent=1) + "\n")


def write_columns(path: Path) -> None:
    """Write what the columns of ``videos.csv`` mean, a row per column."""
    write_csv(
        path,
        [
            {
                "column": metric.name,
                "definition": metric.definition,
                "range": metric.range,
                "better": metric.better,
                "beware": metric.trap,
                "source": metric.source,
            }
            for metric in METRICS
            if metric.scope != "split"
        ],
    )


def format_scores(scores: Mapping[str, float], intervals: Mapping[str, Interval]) -> str:
    """Return the main scores a line each with their intervals, under the headings of their groups."""
    shown = {group.name: [m for m in group.metrics if m.name in scores and not m.is_detail] for group in GROUPS}
    width = max((len(metric.name) for metrics in shown.values() for metric in metrics), default=0)
    lines = []
    for heading, metrics in shown.items():
        undefined = [metric.name for metric in metrics if math.isnan(scores[metric.name])]
        lines.append(f"\n{heading}")
        for metric in metrics:
            value, interval = scores[metric.name], intervals.get(metric.name, NO_INTERVAL)
            if not math.isnan(value):
                row = f"  {metric.name:{width}} {_figure(value, metric):>9}  {_between(interval, metric):21}"
                lines.append(f"{row} {_BETTER[metric.better]}".rstrip())
        if undefined:
            text = f"undefined: {', '.join(undefined)}"
            lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines).strip("\n")


def _figure(value: float, metric: Metric) -> str:
    return f"{value:.0f}" if metric.is_count else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _between(interval: Interval, metric: Metric) -> str:
    is_known = not (metric.is_count or math.isnan(interval.low))
    return f"[{_figure(interval.low, metric)}, {_figure(interval.high, metric)}]" if is_known else ""


def to_cell(value: str | float | None) -> str:
    """Return a value as a CSV cell: harmless to a spreadsheet, and empty where it is unknown."""
    if isinstance(value, str):
        return harmless(plain(value))
    return "" if value is None or math.isnan(value) else repr(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value

"""The tables of a run folder as the page shows them; what is in them is ``eval.scoring``'s.

Video names, remarks and errors are untrusted: they go into cells of type ``str`` only, or are escaped.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final

from eval.registry import GROUPS, Metric

VIDEO_COLUMNS: Final = {
    "F1": "Response F1",
    "missing_rate": "Missed",
    "redundant_rate": "Redundant",
    "speaking_event_f1_1s": "Speak ±1 s",
    "dst_f1": "Update F1",
    "dst_joint_goal_accuracy": "State right",
}
"""Scores of the table of videos, with short names."""
HEADERS: Final = ["Video", *VIDEO_COLUMNS.values(), "Remark"]
TABLES: Final = ("videos.csv", "columns.csv", "metrics.json", "charts.json")
"""Files that can be downloaded."""

Row = Mapping[str, str | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run folder says, as far as it is scored."""

    rows: Sequence[Row] = ()
    """A video each."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """``metrics.json``; nothing before the end."""
    charts: Mapping[str, Any] = field(default_factory=dict)
    """``charts.json``; nothing before the end."""


def read_results(folder: Path) -> Results:
    """Read the tables of a run folder; what is not there or cannot be read is empty."""
    rows: list[Row] = []
    try:
        with (folder / "videos.csv").open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if not {"video_id", "error"} <= set(reader.fieldnames or ()):
                raise ValueError("its columns are others")
            rows = [{name: _number(name, row[name]) for name in reader.fieldnames or ()} for row in reader]
    except (OSError, ValueError, csv.Error):
        rows = []
    return Results(rows=rows, metrics=_read(folder / "metrics.json"), charts=_read(folder / "charts.json"))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _number(name: str, cell: str | None) -> str | float:
    if name in ("video_id", "error", "remark"):
        return cell or ""
    return float(cell) if cell else math.nan


def _failed(row: Row) -> bool:
    return bool(row["error"])


def _least(name: str) -> Callable[[Row], float]:
    """Sort by a score, the least first and what has none last."""
    return lambda row: _last_if_undefined(float(row.get(name, math.nan)))


def _most(name: str) -> Callable[[Row], float]:
    return lambda row: _last_if_undefined(-float(row.get(name, math.nan)))


def _last_if_undefined(value: float) -> float:
    return math.inf if math.isnan(value) else value


ORDERS: Final[dict[str, Callable[[Row], float] | None]] = {
    "as in the split": None,
    "worst responses": _least("F1"),
    "worst updates": _least("dst_f1"),
    "most redundant": _most("redundant_rate"),
    "most missed": _most("missing_rate"),
    "only failed": None,
}


def video_table(rows: Sequence[Row], order: str) -> list[list[str | float | None]]:
    """Return the cells of the table of videos in an order of ``ORDERS``."""
    key = ORDERS.get(order)
    chosen = [row for row in rows if _failed(row)] if order == "only failed" else list(rows)
    if key is not None:
        chosen.sort(key=key)
    return [
        [
            str(row["video_id"]),
            *(_rounded(float(row.get(name, math.nan))) for name in VIDEO_COLUMNS),
            f"failed: {row['error']}" if _failed(row) else str(row.get("remark", "")),
        ]
        for row in chosen
    ]


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)


def draw_corpus(metrics: Mapping[str, Any]) -> str:
    """Return the scores of a split as markup: figure, 95 % interval, and the definition where one is pointed at."""
    scores, intervals = metrics.get("scores", {}), metrics.get("intervals", {})
    if not scores:
        return ""
    rows = []
    for group in GROUPS:
        shown = [metric for metric in group.metrics if metric.name in scores and not metric.is_detail]
        if shown:
            rows.append(f'<tr><th colspan="3" scope="rowgroup">{escape(group.name)}</th></tr>')
            rows += [_corpus_row(metric, scores[metric.name], intervals.get(metric.name)) for metric in shown]
    return f'<table class="corpus">{"".join(rows)}</table>'


def _corpus_row(metric: Metric, score: Any, interval: Any) -> str:
    hint = escape(metric.hint)
    return (
        f'<tr tabindex="0" data-hint="{hint}"><td>{escape(metric.name)}</td>'
        f"<td><b>{figure(score, is_count=metric.is_count)}</b></td><td>{interval_words(interval)}</td></tr>"
    )


def figure(value: Any, *, is_count: bool = False) -> str:
    """Write a score; an undefined one is said to be so."""
    if not isinstance(value, int | float) or math.isnan(value):
        return "undefined"
    return f"{value:,.0f}" if is_count or abs(value) >= 1000 else f"{value:.3f}"


def interval_words(interval: Any) -> str:
    """Write an interval, read from JSON or not; nothing where there is none."""
    bounds = list(interval.values()) if isinstance(interval, Mapping) else list(interval or [])
    if len(bounds) != 2 or any(bound is None or math.isnan(bound) for bound in bounds):
        return ""
    return f"{figure(bounds[0])} to {figure(bounds[1])}"

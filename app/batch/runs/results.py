"""The tables of a run folder on the page; ``eval.reports.scoring`` writes them.

Video names, warnings and errors are untrusted: they are in cells of type ``str`` only.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from app.templates import render
from engine.io import replace_surrogates_in
from eval.metrics.definitions import GROUPS, Metric, find_metric
from eval.reports.table_files import Row, read_charts, read_metrics, read_video_rows

VIDEO_COLUMNS: Final = (
    "num_failures",
    "F1",
    "missing_rate",
    "redundant_rate",
    "speaking_event_f1_1s",
    "dst_f1",
    "dst_joint_goal_accuracy",
)
"""Scores of the table of videos."""
HEADERS: Final = ["Video", *(find_metric(name).label for name in VIDEO_COLUMNS), "Remark"]

TEACHER_FORCED: Final = "Teacher-forced"
"""Name of the group of teacher-forced scores."""
NOT_MEASURED: Final = "not measured: tick “Teacher-forced pass” and start the run again, under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The scores of a run folder; empty fields before the run is scored."""

    rows: Sequence[Row] = ()
    """One row per video."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Contents of ``metrics.json``."""
    charts: Mapping[str, Any] = field(default_factory=dict)
    """Contents of ``charts.json``."""
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
    }
    for name, read in readers.items():
        try:
            found[name] = replace_surrogates_in(read(folder))
        except FileNotFoundError:
            continue
        except ValueError as error:
            problems.append(str(error).replace(f"{folder}/", ""))
    return Results(**found, problems=tuple(problems))


def _failed(row: Row) -> bool:
    return bool(row["error"])


def _ascending(name: str) -> Callable[[Row], float]:
    """Return a sort key by a score, ascending; undefined scores are last."""
    return lambda row: _last_if_undefined(float(row.get(name, math.nan)))


def _descending(name: str) -> Callable[[Row], float]:
    return lambda row: _last_if_undefined(-float(row.get(name, math.nan)))


def _last_if_undefined(value: float) -> float:
    return math.inf if math.isnan(value) else value


ORDERS: Final[dict[str, Callable[[Row], float] | None]] = {
    "as in the split": None,
    "worst responses": _ascending("F1"),
    "worst updates": _ascending("dst_f1"),
    "most redundant": _descending("redundant_rate"),
    "most missed": _descending("missing_rate"),
    "most failures": _descending("num_failures"),
    "only failed": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """A score of a split, as text."""

    metric: Metric
    score: str
    interval: str
    """The 95 % interval; empty if it is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreGroup:
    """Scores under one heading; ``note`` replaces the rows of scores that were not measured."""

    name: str
    note: str
    rows: tuple[ScoreRow, ...]


class VideoFilter(NamedTuple):
    """Order and selection of the videos in the table."""

    order: str
    """One of ``ORDERS``."""
    videos: frozenset[str] | None = None
    """Ids of the selected videos; None for all."""


def video_table(
    rows: Sequence[Row], choice: str | VideoFilter, names: Mapping[str, str] | None = None
) -> list[list[str | float | None]]:
    """Return the cells of the table of videos.

    ``choice`` is an order of ``ORDERS`` or a filter. ``names`` are short names of the videos, by id.
    """
    order, videos = (choice, None) if isinstance(choice, str) else choice
    rows = [row for row in rows if videos is None or row["video_id"] in videos]
    key = ORDERS.get(order)
    chosen = [row for row in rows if _failed(row)] if order == "only failed" else list(rows)
    if key is not None:
        chosen.sort(key=key)
    return [
        [
            (names or {}).get(str(row["video_id"]), str(row["video_id"])),
            *(None if _failed(row) else round_score(float(row.get(name, math.nan))) for name in VIDEO_COLUMNS),
            f"failed: {row['error']}" if _failed(row) else str(row.get("warning", "")),
        ]
        for row in chosen
    ]


def round_score(value: float) -> float | None:
    """Return a score rounded for a cell; None if it is undefined."""
    return None if math.isnan(value) else round(value, 3)


def draw_corpus(metrics: Mapping[str, Any]) -> str:
    """Return the scores of a split as an HTML table: value, 95 % interval, and the definition as a hint."""
    return render("scores", groups=score_groups(metrics)) if metrics.get("scores") else ""


def score_groups(metrics: Mapping[str, Any]) -> list[ScoreGroup]:
    """Return the rows of the template ``scores`` from the contents of ``metrics.json``."""
    scores, intervals = metrics.get("scores", {}), metrics.get("intervals", {})
    groups = []
    for group in GROUPS:
        shown = [metric for metric in group.metrics if metric.name in scores and not metric.is_detail]
        is_measured = group.name != TEACHER_FORCED or any(scores[metric.name] is not None for metric in shown)
        rows = [
            ScoreRow(
                metric=metric,
                score=format_score(scores[metric.name], is_count=metric.is_count),
                interval=format_interval(intervals.get(metric.name)),
            )
            for metric in shown
        ]
        if shown:
            note = "" if is_measured else NOT_MEASURED
            groups.append(ScoreGroup(name=group.name, note=note, rows=tuple(rows) if is_measured else ()))
    return groups


def format_score(value: Any, *, is_count: bool = False) -> str:
    """Return a score as text, ``undefined`` for nan."""
    if not isinstance(value, int | float) or math.isnan(value):
        return "undefined"
    places = 0 if is_count or abs(value) >= 1000 else 3
    return f"{round(value, places) or 0.0:,.{places}f}"  # "or 0.0" turns -0.0 into 0.0


def format_interval(interval: Any, *, is_count: bool = False) -> str:
    """Return an interval as text, given as a pair or as a mapping of JSON; empty if it is undefined."""
    bounds = list(interval.values()) if isinstance(interval, Mapping) else list(interval or [])
    if len(bounds) != 2 or any(bound is None or math.isnan(bound) for bound in bounds):
        return ""
    return " to ".join(format_score(bound, is_count=is_count) for bound in bounds)

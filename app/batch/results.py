"""The tables of a run folder as the page shows them; what is in them is ``eval.reports.scoring``'s.

Video names, remarks and errors are untrusted: they go into cells of type ``str`` only, or are escaped.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.io import replace_surrogates_in
from eval.metrics.definitions import GROUPS, Metric, find_metric
from eval.reports.table_files import Row, read_charts, read_metrics, read_rows

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

TAUGHT: Final = "Teacher-forced"
"""The group of scores of the second pass."""
NOT_TAUGHT: Final = "not measured: tick “Teacher-forced pass” and start the run again, under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run folder says, as far as it is scored."""

    rows: Sequence[Row] = ()
    """A video each."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """``metrics.json``; nothing before the end."""
    charts: Mapping[str, Any] = field(default_factory=dict)
    """``charts.json``; nothing before the end."""
    problems: tuple[str, ...] = ()
    """Per file that cannot be read, a sentence; what it would hold is empty."""


def read_results(folder: Path) -> Results:
    """Read the tables of a run folder; one that is missing or cannot be read is empty. They hold only UTF-8."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    readers: Mapping[str, Callable[[Path], Any]] = {"rows": read_rows, "metrics": read_metrics, "charts": read_charts}
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
    "most failures": _most("num_failures"),
    "only failed": None,
}


class Choice(NamedTuple):
    """Which videos the table shows."""

    order: str
    """One of ``ORDERS``."""
    videos: frozenset[str] | None = None
    """Their ids; None for all."""


def video_table(
    rows: Sequence[Row], choice: str | Choice, names: Mapping[str, str] | None = None
) -> list[list[str | float | None]]:
    """Return the cells of the table of videos; ``choice`` is an order of ``ORDERS``, or says which videos too.

    ``names`` says what ids are called.
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
            *(None if _failed(row) else rounded(float(row.get(name, math.nan))) for name in VIDEO_COLUMNS),
            f"failed: {row['error']}" if _failed(row) else str(row.get("remark", "")),
        ]
        for row in chosen
    ]


def rounded(value: float) -> float | None:
    """Return a score as a cell; none where it is undefined."""
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
            if group.name == TAUGHT and all(scores[metric.name] is None for metric in shown):
                rows.append(f'<tr><td colspan="3">{NOT_TAUGHT}</td></tr>')
                continue
            rows += [_corpus_row(metric, scores[metric.name], intervals.get(metric.name)) for metric in shown]
    return f'<table class="corpus">{"".join(rows)}</table>'


def _corpus_row(metric: Metric, score: Any, interval: Any) -> str:
    hint = escape(metric.hint)
    return (
        f'<tr tabindex="0" data-hint="{hint}"><td>{_named(metric)}</td>'
        f"<td><b>{figure(score, is_count=metric.is_count)}</b></td><td>{interval_words(interval)}</td></tr>"
    )


def _named(metric: Metric) -> str:
    """Return the label of a score, with its name in the files where that is another."""
    name = f" <code>{escape(metric.name)}</code>" if metric.name != metric.label else ""
    return f"{escape(metric.label)}{name}"


def figure(value: Any, *, is_count: bool = False) -> str:
    """Write a score; an undefined one is said to be so."""
    if not isinstance(value, int | float) or math.isnan(value):
        return "undefined"
    places = 0 if is_count or abs(value) >= 1000 else 3
    return f"{round(value, places) or 0.0:,.{places}f}"  # never minus nothing


def interval_words(interval: Any, *, is_count: bool = False) -> str:
    """Write an interval, read from JSON or not; nothing where there is none."""
    bounds = list(interval.values()) if isinstance(interval, Mapping) else list(interval or [])
    if len(bounds) != 2 or any(bound is None or math.isnan(bound) for bound in bounds):
        return ""
    return " to ".join(figure(bound, is_count=is_count) for bound in bounds)

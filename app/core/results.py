"""The tables of a run folder on the page.

Video names, warnings and errors are untrusted: they are in cells of type ``str`` only.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from stepscope.app.formatting import format_score
from stepscope.app.templates import render
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.decisions import PREFIXES
from stepscope.eval.metrics.definitions import GROUPS, NUM_FAILURES, Metric, find_metric
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.table_files import Row
from stepscope.eval.runs.folder import UNSCORED
from stepscope.eval.runs.imports.import_results import NO_RESULT_FILE

VIDEO_COLUMNS: Final = (
    "num_failures",
    "F1",
    "missing_rate",
    "redundant_rate",
    "speaking_event_f1_1s",
    "dst_f1",
    "dst_joint_goal_accuracy",
)
WORST_FIRST: Final[Mapping[str, str]] = {
    name: name if find_metric(name).better == "higher" else f"-{name}" for name in VIDEO_COLUMNS
}
"""The order of the videos by each score, as in ``VideoFilter``, with the worst ones first."""

TEACHER_FORCED: Final = "Teacher-forced"
NOT_MEASURED: Final = "not measured: tick “Teacher-forced pass” and start the run again, under another name"


SIGNAL_SCORES: Final = ("average_precision", "auroc", "brier", "ece", "precision", "recall", "f1", "event_f1_1s")
"""Scores of a named signal, as they are shown."""


class ScoreRow(NamedTuple):
    """A score of a split, as text, and its 95 % interval; empty if it is undefined."""

    metric: Metric
    score: str
    interval: str = ""


class ScoreGroup(NamedTuple):
    """Scores under one heading; ``note`` replaces the rows where no score is defined."""

    name: str
    note: str = ""
    rows: Sequence[ScoreRow] = ()


class VideoFilter(NamedTuple):
    """Order and selection of the videos of a run."""

    order: str
    """A column such as ``F1``, from the least, or ``-F1``, from the greatest; undefined scores are last.

    ``error`` has the failed ones first; with any other text they are as in the split.
    """
    videos: frozenset[str] | None = None
    """Ids of the selected videos; None for all."""


def video_scores(row: Mapping[Hashable, Any]) -> list[float | None]:
    """Return the scores ``VIDEO_COLUMNS`` of a row, rounded; None for each that is undefined."""
    if row["error"]:
        return [None] * len(VIDEO_COLUMNS)
    return [round_score(float(row[name]), is_count=find_metric(name).is_count) for name in VIDEO_COLUMNS]


def choose_rows(rows: Sequence[Row], choice: VideoFilter) -> list[dict[Hashable, Any]]:
    """Return the rows of the chosen videos in their order."""
    columns = ["video_id", "error", "warning", *VIDEO_COLUMNS]
    table = pd.DataFrame([{"warning": "", **row} for row in rows], columns=columns)
    if choice.videos is not None:
        table = table[table["video_id"].isin(choice.videos)]
    column = choice.order.removeprefix("-")
    if column in table:
        key = (lambda errors: errors == "") if column == "error" else None
        table = table.sort_values(column, ascending=choice.order == column, kind="stable", na_position="last", key=key)
    return table.to_dict("records")


def count_failed(errors: Iterable[str]) -> int:
    """Return the number of failed videos; one without a result file or a reference did not fail."""
    return sum(error not in ("", NO_RESULT_FILE, *UNSCORED) for error in errors)


def round_score(value: float, *, is_count: bool = False) -> float | None:
    """Return a score rounded for a cell, a count as an integer; None if it is undefined."""
    return None if math.isnan(value) else round(value, None if is_count else 3)


def score_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a value of ``gr.Dataframe`` that shows three decimals of each number that is no integer."""
    cells = [[format_score(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]
    return {"headers": headers, "data": rows, "metadata": {"display_value": cells}}


def draw_corpus(metrics: Mapping[str, Any], num_mistakes: int = 0) -> str:
    """Return the scores of a split as an HTML table: their basis, values, 95 % intervals, and definitions as hints.

    ``num_mistakes`` is the number of mistakes that the failures are, if it is known.
    """
    if not metrics.get("scores"):
        return ""
    beside = {NUM_FAILURES: f"in {format_count(num_mistakes, 'mistake')}"} if num_mistakes else {}
    return render("scores", groups=score_groups(metrics), basis=describe_scoring(metrics), beside=beside)


def score_groups(metrics: Mapping[str, Any]) -> list[ScoreGroup]:
    """Return the rows of the template ``scores`` from the contents of ``metrics.json``.

    Undefined scores are the last ones of their group. Groups without a defined score are last, as notes.
    """
    scores, intervals = metrics.get("scores", {}), metrics.get("intervals", {})
    groups, undefined = list[ScoreGroup](), list[ScoreGroup]()
    for group in GROUPS:
        shown = [metric for metric in group.metrics if metric.name in scores and not metric.is_detail]
        shown.sort(key=lambda metric: not _is_defined(scores[metric.name]))
        if not shown:
            continue
        if not _is_defined(scores[shown[0].name]):
            labels = f"undefined: {', '.join(metric.label for metric in shown)}"
            note = NOT_MEASURED if group.name == TEACHER_FORCED else labels
            undefined.append(ScoreGroup(group.name, note))
            continue
        rows = [
            ScoreRow(
                metric=metric,
                score=format_score(scores[metric.name], is_count=metric.is_count),
                interval=format_interval(intervals.get(metric.name)),
            )
            for metric in shown
        ]
        groups.append(ScoreGroup(group.name, rows=rows))
    return [*groups, *_signal_groups(metrics.get("signal_scores")), *undefined]


def _is_defined(score: Any) -> bool:
    return score is not None and not math.isnan(score)


def _signal_groups(signals: Any) -> Iterator[ScoreGroup]:
    for signal in signals.values() if isinstance(signals, Mapping) else ():
        prefix, scores = PREFIXES[signal["decides"]], signal["scores"]
        rows = [ScoreRow(find_metric(f"{prefix}{name}"), format_score(scores.get(name))) for name in SIGNAL_SCORES]
        yield ScoreGroup(f"Signal {signal['title']}, decides to {signal['decides']}", rows=rows)


def format_interval(interval: Any, *, is_count: bool = False) -> str:
    """Return an interval as text, given as a pair or as a mapping of JSON; empty if it is undefined."""
    bounds = list(interval.values()) if isinstance(interval, Mapping) else list(interval or [])
    if len(bounds) != 2 or any(bound is None or math.isnan(bound) for bound in bounds):
        return ""
    return " to ".join(format_score(bound, is_count=is_count) for bound in bounds)

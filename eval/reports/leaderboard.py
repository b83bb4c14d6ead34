"""A leaderboard: runs of one split in rows, scores with intervals in columns, as Markdown, CSV or LaTeX.

All runs are scored with the same settings, over the videos that are finished in all of them. A best score is marked
only if a paired permutation test separates it from that of every other run.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import escape_formula
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.bootstrap import NO_INTERVAL, Interval, bootstrap
from stepscope.eval.metrics.counts import Counts, Pool
from stepscope.eval.metrics.definitions import BEST_VALUES, METRICS, Metric, compute_loss, find_metric
from stepscope.eval.metrics.measures import Measure
from stepscope.eval.metrics.score import MEASURES
from stepscope.eval.reports.scoring import ScoreSettings, make_analyzer
from stepscope.eval.reports.statistics import compare_scores
from stepscope.eval.reports.table_formats import TableFormat
from stepscope.eval.runs.folder import RunFolder, explain_unscored
from stepscope.eval.runs.traces import read_provenance

DEFAULT_METRICS: Final = (
    "F1",
    "missing_rate",
    "redundant_rate",
    "OVO_timing_F1_2s",
    "PAUC_w0.5",
    "span_F1",
    "duplicate_ratio",
    "false_alarms_per_quiet_hour",
)
MAX_P_VALUE: Final = 0.05
"""Largest p-value of a difference that separates two runs."""
MIN_TESTED_VIDEOS: Final = 6
"""With fewer videos the smallest possible p-value, ``2 / 2**videos``, exceeds ``MAX_P_VALUE``."""
_SAFE_LATEX: Final = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One score of one run."""

    value: float
    """nan if undefined."""
    interval: Interval
    is_best: bool
    """Whether it is better than the score of every other run, and a test separates the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The runs of one split, and their scores."""

    metrics: tuple[Metric, ...]
    rows: Mapping[str, tuple[Cell, ...]]
    """Per run, by name, a cell for each metric."""
    num_videos: int
    remarks: Mapping[str, str]
    """Remark on each run in which a user asked; see ``Provenance.asked_label``."""
    left_out: Mapping[str, tuple[str, ...]]
    """Videos that are not finished in all runs, each with the runs that have not finished it."""


def list_leaderboard_metrics() -> list[str]:
    """Return the names of the scores that a leaderboard may have, in the order of the tables."""
    known = {name for measure in MEASURES for name in measure.summarize(measure.kind())}
    return [metric.name for metric in METRICS if metric.name in known]


def check_leaderboard_metrics(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for a score that does not exist, or that needs the texts of a whole corpus."""
    known = list_leaderboard_metrics()
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no score of a leaderboard; see `stepscope metrics`, without the text scores")


def build_leaderboard(
    runs: Mapping[str, Path],
    split: Split,
    settings: ScoreSettings,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    encode: Encode,
    num_resamples: int = 1000,
) -> Leaderboard:
    """Score run folders, given by name, over their common videos of a split.

    Raises ``ValueError`` if they have no finished video in common, or for an invalid metric.
    """
    check_leaderboard_metrics(metrics)
    folders = {name: RunFolder(path) for name, path in runs.items()}
    analyzers = {name: make_analyzer(folder, settings, encode=encode) for name, folder in folders.items()}
    kind = _make_counts(metrics)
    counts: dict[str, list[Counts]] = {name: [] for name in runs}
    finished = {name: find_finished(folder, split) for name, folder in folders.items()}
    if unfinished := [name for name, videos in finished.items() if not videos]:
        raise ValueError(f"{unfinished[0]} has no finished video of the split; leave this run out")
    lacking = {
        sample.video_id: tuple(name for name, videos in finished.items() if sample.video_id not in videos)
        for sample in split.samples
    }
    for sample in split.samples:
        if lacking[sample.video_id]:
            continue
        for name, analyze in analyzers.items():
            found = analyze(sample).counts
            counts[name].append(kind(**{part.name: getattr(found, part.name) for part in fields(kind)}))
    if not all(counts.values()) or not counts:
        raise ValueError("the runs have no finished video in common, so there is nothing to rank")

    score = _make_score(metrics)
    best = _find_best(counts, kind, score, metrics, num_resamples)
    rows: dict[str, tuple[Cell, ...]] = {}
    for name, of_run in counts.items():
        pool = Pool(of_run, kind)
        values, intervals = score(pool.total()), bootstrap(pool, score, num_resamples=num_resamples)
        rows[name] = tuple(
            Cell(value=values[one], interval=intervals.get(one, NO_INTERVAL), is_best=best.get(one) == name)
            for one in metrics
        )
    num_videos = len(next(iter(counts.values())))
    return Leaderboard(
        metrics=tuple(map(find_metric, metrics)),
        rows=rows,
        remarks={name: label for name, folder in folders.items() if (label := read_provenance(folder).asked_label)},
        num_videos=num_videos,
        left_out={video_id: names for video_id, names in lacking.items() if names},
    )


def find_finished(folder: RunFolder, split: Split) -> set[str]:
    """Return the ids of the videos of a split that a run has finished and that have a reference."""
    found = ((sample, folder.record(sample.video_id)) for sample in split.samples)
    return {sample.video_id for sample, record in found if not explain_unscored(sample, record)}


def _needed(metrics: Sequence[str]) -> tuple[Measure[Any], ...]:
    """Return the measures that the metrics are scores of; resampling computes no others."""
    return tuple(measure for measure in MEASURES if not set(metrics).isdisjoint(measure.summarize(measure.kind())))


def _make_score(metrics: Sequence[str]) -> Callable[[Counts], dict[str, float]]:
    measures = _needed(metrics)

    def score(total: Counts) -> dict[str, float]:
        found: dict[str, float] = {}
        for measure in measures:
            found.update(measure.summarize(getattr(total, measure.name)))
        return {name: found[name] for name in metrics}

    return score


def _make_counts(metrics: Sequence[str]) -> type[Counts]:
    """Return a type of counts with the needed measures alone, which are fast to resample."""
    parts = [(one.name, one.kind, field(default_factory=one.kind)) for one in _needed(metrics)]
    return make_dataclass("LeaderboardCounts", parts, bases=(Counts,), frozen=True, kw_only=True)


def _find_best(
    counts: Mapping[str, Sequence[Counts]],
    kind: type[Counts],
    score: Callable[[Counts], dict[str, float]],
    metrics: Sequence[str],
    num_resamples: int,
) -> dict[str, str]:
    """Return, per metric with a separated best run, the name of that run."""
    values = {name: score(Pool(of_run, kind).total()) for name, of_run in counts.items()}
    leaders: dict[str, str] = {}
    for metric in metrics:
        losses = {name: compute_loss(metric, found[metric]) for name, found in values.items()}
        if len(counts) > 1 and not any(map(math.isnan, losses.values())):
            leaders[metric] = min(losses, key=lambda name, losses=losses: losses[name])  # type: ignore[misc]
    best = dict(leaders)
    for leader in set(leaders.values()):
        for other in counts.keys() - {leader}:
            found = compare_scores(counts[leader], counts[other], kind=kind, score=score, num_resamples=num_resamples)
            for metric, name in leaders.items():
                if name == leader and not found[metric].better_p_value <= MAX_P_VALUE:
                    best.pop(metric, None)
    return best


def sort_leaderboard(board: Leaderboard, by: str) -> Leaderboard:
    """Return a leaderboard with its rows sorted by a score, best first, undefined last.

    The order stays if the leaderboard lacks the score, or none of its values is better than another.
    """
    column = next((number for number, metric in enumerate(board.metrics) if metric.name == by), None)
    if column is None:
        return board

    def key(row: tuple[str, tuple[Cell, ...]]) -> tuple[bool, float]:
        loss = compute_loss(by, row[1][column].value)
        return math.isnan(loss), 0.0 if math.isnan(loss) else loss

    return replace(board, rows=dict(sorted(board.rows.items(), key=key)))


def format_leaderboard(board: Leaderboard, table_format: TableFormat) -> str:
    """Return a leaderboard as text in a format."""
    return {"markdown": _to_markdown, "csv": _to_csv, "latex": _to_latex}[table_format](board)


def _to_markdown(board: Leaderboard) -> str:
    heads = ["run", *(f"{metric.name} {direction_of(metric)}".strip() for metric in board.metrics)]
    lines = [heads, ["---"] * len(heads)]
    for name in board.rows:
        lines.append([_label(board, name).replace("|", "\\|"), *describe_row(board, name, "**{}**")])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{_note(board, '**bold**')}\n"


def _to_csv(board: Leaderboard) -> str:
    box = io.StringIO()
    writer = csv.writer(box, lineterminator="\n")
    parts = ("", "_low", "_high", "_best")
    writer.writerow(["run", *(f"{metric.name}{part}" for metric in board.metrics for part in parts), "remark"])
    for name, cells in board.rows.items():
        values = [
            text
            for cell in cells
            for text in (*map(_number, (cell.value, cell.interval.low, cell.interval.high)), int(cell.is_best))
        ]
        writer.writerow([escape_formula(name), *values, board.remarks.get(name, "")])
    return box.getvalue()


def _to_latex(board: Leaderboard) -> str:
    heads = [
        "run",
        *(f"{metric.name} {direction_of(metric, up='UP', down='DOWN', to='TO')}".strip() for metric in board.metrics),
    ]
    arrows = {"UP": r"$\uparrow$", "DOWN": r"$\downarrow$", "TO": r"$\to$"}
    shown = [_latex(head) for head in heads]
    for word, sign in arrows.items():
        shown = [head.replace(f" {word}", f" {sign}") for head in shown]
    rows = [
        " & ".join([_latex(_label(board, name)), *describe_row(board, name, r"\textbf{{{}}}")]) for name in board.rows
    ]
    body = "".join(f"{row} \\\\\n" for row in rows)
    return (
        f"% {_note(board, 'bold')}\n\\begin{{tabular}}{{l{'r' * len(board.metrics)}}}\n\\hline\n"
        f"{' & '.join(shown)} \\\\\n\\hline\n{body}\\hline\n\\end{{tabular}}\n"
    )


def _note(board: Leaderboard, mark: str) -> str:
    return (
        f"{format_count(board.num_videos, 'video')}, micro average, 95 % intervals by bootstrap over videos; {mark}: "
        f"better than every other run, paired permutation test, p <= {MAX_P_VALUE:g}."
    )


def describe_row(board: Leaderboard, name: str, mark: str) -> list[str]:
    """Return the cells of a run as text, each with its interval; ``mark`` is the format of a best value."""
    return [_describe(metric, cell, mark) for metric, cell in zip(board.metrics, board.rows[name], strict=True)]


def _describe(metric: Metric, cell: Cell, mark: str) -> str:
    if math.isnan(cell.value):
        return "-"
    digits = 0 if metric.is_count else 3
    value = mark.format(f"{cell.value:.{digits}f}") if cell.is_best else f"{cell.value:.{digits}f}"
    low, high = cell.interval.low, cell.interval.high
    return value if metric.is_count or math.isnan(low) else f"{value} [{low:.3f}, {high:.3f}]"


def direction_of(metric: Metric, *, up: str = "↑", down: str = "↓", to: str = "→") -> str:
    """Return the sign of the better direction of a score, such as ``→0`` for one that is best at 0; empty for none."""
    if metric.name in BEST_VALUES:
        return f"{to}{BEST_VALUES[metric.name]:g}"
    return {"higher": up, "lower": down}.get(metric.better, "")


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _label(board: Leaderboard, name: str) -> str:
    remark = f" ({board.remarks[name]})" if name in board.remarks else ""
    return " ".join(f"{name}{remark}".split())


def _latex(text: str) -> str:
    return "".join(_SAFE_LATEX.get(sign, sign) for sign in text)

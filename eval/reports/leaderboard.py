"""A leaderboard: runs of one split in rows, scores with intervals in columns, as Markdown, CSV or LaTeX.

All runs are scored with the same settings, over the videos that are finished in all of them. A best score is marked
only if a paired permutation test, corrected over the columns, separates it from that of every other run. A column may
be the main score of a protocol, such as ``spot-pnr:k=1``; a note below the table then states its rule.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import escape_formula
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.matching.grading import CosineBands
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.counts import NO_INTERVAL, Counts, Interval, Pool, bootstrap
from stepscope.eval.metrics.definitions import BEST_VALUES, MACHINE_SCORES, METRICS, Metric, compute_loss, find_metric
from stepscope.eval.metrics.matched_video import Measure
from stepscope.eval.metrics.score import MEASURES, VideoAnalysis, analyze_video
from stepscope.eval.protocols.registry import PROTOCOLS
from stepscope.eval.protocols.rules import Rule, RuleCounts, parse_rule
from stepscope.eval.reports.entries import ABOUT as BASELINES
from stepscope.eval.reports.entries import Entries, Entry, open_entries
from stepscope.eval.reports.scoring import ScoreSettings, describe_scoring, make_analyzer
from stepscope.eval.reports.statistics import compare_scores, correct_p_values
from stepscope.eval.reports.table_formats import TableFormat, escape_latex, format_notes, format_table, format_tabular
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import read_provenance

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
FAILURES: Final = "failures"
"""The counts of failures, which runs without states have of responses alone."""
MAX_P_VALUE: Final = 0.05
"""Largest p-value of a difference that separates two runs."""
MIN_TESTED_VIDEOS: Final = 6
"""With fewer videos the smallest possible p-value, ``2 / 2**videos``, exceeds ``MAX_P_VALUE``."""
_LATEX_ARROWS: Final = str.maketrans({"↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\to$"})


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
    basis: str
    """Judge, text encoder and settings of all scores; see ``describe_scoring``."""
    notes: tuple[str, ...] = ()
    """Sentences on the baselines and on the rules of the protocols."""


def list_leaderboard_metrics() -> list[str]:
    """Return the names of the scores that a leaderboard may have, in the order of the tables."""
    known = {name for measure in MEASURES for name in measure.summarize(measure.kind())}
    return [metric.name for metric in METRICS if metric.name in known]


def check_leaderboard_metrics(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for a score that does not exist, or that needs the texts of a whole corpus."""
    known = list_leaderboard_metrics()
    for name in names:
        if is_rule(name):
            parse_rule(name)
        elif name not in known:
            raise ValueError(
                f"{name!r} is no score of a leaderboard; see `stepscope metrics`, without the text scores, and "
                "`stepscope protocols`"
            )


def build_leaderboard(
    runs: Mapping[str, Path],
    split: Split,
    settings: ScoreSettings,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    encode: Encode,
    num_resamples: int = 1000,
    baselines: bool = False,
) -> Leaderboard:
    """Score run folders, given by name, over their common videos of a split; see ``eval.reports.entries``.

    Raises ``ValueError`` if they have no finished video in common, or for an invalid metric.
    """
    check_leaderboard_metrics(metrics)
    entries = open_entries(runs, split, baselines=baselines)
    rules = {name: parse_rule(name) for name in metrics if is_rule(name)}
    kind = _make_counts(metrics, rules)
    stateless = [name for name, entry in entries.rows.items() if not entry.has_states]
    has_failures = FAILURES in {part.name for part in fields(kind)}
    of_responses = stateless[0] if has_failures and 0 < len(stateless) < len(entries.rows) else ""
    count = partial(_count_entry, kind=kind, rules=rules, encode=encode, of_responses=bool(of_responses))
    counts = {name: count(entry, name, runs, entries.samples, settings) for name, entry in entries.rows.items()}
    score = _make_score(metrics, rules)
    compared = {name: counts[name] for name in runs}
    columns = {name: make_metric(rules[name]) if name in rules else find_metric(name) for name in metrics}
    best = _find_best(compared, kind, score, columns, num_resamples)
    rows: dict[str, tuple[Cell, ...]] = {}
    for name, of_run in counts.items():
        pool = Pool(of_run, kind)
        values, intervals = score(pool.total()), bootstrap(pool, score, num_resamples=num_resamples)
        rows[name] = tuple(
            Cell(value=values[one], interval=intervals.get(one, NO_INTERVAL), is_best=best.get(one) == name)
            for one in metrics
        )
    remarks = {name: read_provenance(RunFolder(path)).asked_label for name, path in runs.items()}
    return Leaderboard(
        metrics=tuple(columns.values()),
        rows=rows,
        remarks={name: label for name, label in remarks.items() if label},
        num_videos=len(entries.samples),
        left_out=entries.left_out,
        basis=describe_scoring(asdict(settings) | split.origin),
        notes=_list_notes(rules, entries, of_responses),
    )


def is_rule(name: str) -> bool:
    """Return whether a score is named as that of a protocol."""
    return name.partition(":")[0] in PROTOCOLS


def make_metric(rule: Rule) -> Metric:
    """Return the main score of a protocol as an entry of a table."""
    return Metric(
        name=rule.name,
        label=rule.name,
        definition=rule.describe(),
        range="0 to 100" if rule.protocol.main == "pauc" else "0 to 1",
        better="higher",
        source=rule.protocol.source,
    )


def _list_notes(rules: Mapping[str, Rule], entries: Entries, of_responses: str) -> tuple[str, ...]:
    has_baselines = any(entry.is_baseline for entry in entries.rows.values())
    notes = [BASELINES] if has_baselines else []
    if of_responses:
        notes.append(f"Failures are those of responses, in all rows: {of_responses} has no updates and states.")
    for rule in rules.values():
        reasons = {entry.explain_undefined(rule, entries.samples) for entry in entries.rows.values()} - {""}
        notes.append(" ".join([rule.describe(), *(f"Undefined (-): {reason}." for reason in sorted(reasons))]))
    return tuple(notes)


def _count_entry(
    entry: Entry,
    name: str,
    runs: Mapping[str, Path],
    samples: Sequence[Sample],
    settings: ScoreSettings,
    *,
    kind: type[Counts],
    rules: Mapping[str, Rule],
    encode: Encode,
    of_responses: bool,
) -> list[Counts]:
    """Return the counts of a row, one record for each video; with ``of_responses`` failures of responses alone."""
    counted = entry.count(list(rules.values()), samples, grade=CosineBands(encode))
    of_rules = {part: rows for (part, _), rows in zip(_name_fields(rules), counted, strict=True)}
    names = [part.name for part in fields(kind) if part.name not in of_rules]
    analyze: Callable[[Sample], VideoAnalysis] = partial(
        _analyze_baseline, entry=entry, settings=settings, encode=encode
    )
    analyze_responses = analyze
    if not entry.is_baseline:
        make = partial(make_analyzer, RunFolder(runs[name]), settings, encode=encode)
        analyze, analyze_responses = make(), make(counts_states=False)
    counts = []
    for number, sample in enumerate(samples):
        found = analyze(sample).counts if names else None
        parts = {part: getattr(found, part) for part in names}
        if of_responses and entry.has_states:
            parts[FAILURES] = getattr(analyze_responses(sample).counts, FAILURES)
        counts.append(kind(**parts, **{field: rows[number] for field, rows in of_rules.items()}))
    return counts


def _analyze_baseline(sample: Sample, *, entry: Entry, settings: ScoreSettings, encode: Encode) -> VideoAnalysis:
    return analyze_video(
        sample,
        entry.outputs(sample),
        encode=encode,
        dataset=settings.dataset,
        zero_cost=settings.zero_cost,
        has_states=False,
    )


def _name_fields(rules: Mapping[str, Rule]) -> list[tuple[str, Rule]]:
    """Return the field of the counts of each rule."""
    return [(f"rule_{number}", rule) for number, rule in enumerate(rules.values())]


def _needed(metrics: Sequence[str]) -> tuple[Measure[Any], ...]:
    """Return the measures that the metrics are scores of; resampling computes no others."""
    return tuple(measure for measure in MEASURES if not set(metrics).isdisjoint(measure.summarize(measure.kind())))


def _make_score(metrics: Sequence[str], rules: Mapping[str, Rule]) -> Callable[[Counts], dict[str, float]]:
    measures = _needed(metrics)
    named = list(zip(rules, _name_fields(rules), strict=True))

    def score(total: Counts) -> dict[str, float]:
        found: dict[str, float] = {}
        for measure in measures:
            found.update(measure.summarize(getattr(total, measure.name)))
        for name, (part, rule) in named:
            found[name] = rule.summarize(getattr(total, part))[rule.protocol.main]
        return {name: found[name] for name in metrics}

    return score


def _make_counts(metrics: Sequence[str], rules: Mapping[str, Rule]) -> type[Counts]:
    """Return a type of counts with the needed measures and rules alone, which are fast to resample."""
    kinds = {one.name: one.kind for one in _needed(metrics)} | {part: RuleCounts for part, _ in _name_fields(rules)}
    parts = [(name, kind, field(default_factory=kind)) for name, kind in kinds.items()]
    return make_dataclass("LeaderboardCounts", parts, bases=(Counts,), frozen=True, kw_only=True)


def _find_best(
    counts: Mapping[str, Sequence[Counts]],
    kind: type[Counts],
    score: Callable[[Counts], dict[str, float]],
    columns: Mapping[str, Metric],
    num_resamples: int,
) -> dict[str, str]:
    """Return, per metric with a separated best run, the name of that run."""
    values = {name: score(Pool(of_run, kind).total()) for name, of_run in counts.items()}
    leaders: dict[str, str] = {}
    ties: set[str] = set()
    for metric, column in columns.items():
        losses = {name: compute_loss(column, found[metric]) for name, found in values.items()}
        if len(counts) > 1 and metric not in MACHINE_SCORES and not any(map(math.isnan, losses.values())):
            leaders[metric] = min(losses, key=lambda name, losses=losses: losses[name])  # type: ignore[misc]
            first, second, *_ = sorted(losses.values())
            if column.is_shown_zero(second - first):
                ties.add(metric)
    p_values = dict.fromkeys(leaders, 0.0)  # of the run that is hardest to tell from the best
    for leader in set(leaders.values()):
        for other in counts.keys() - {leader}:
            found = compare_scores(counts[leader], counts[other], kind=kind, score=score, num_resamples=num_resamples)
            for metric, name in leaders.items():
                if name == leader:
                    p_values[metric] = max(p_values[metric], found[metric].better_p_value)
    separated = {metric for metric, p in correct_p_values(p_values).items() if p <= MAX_P_VALUE}
    return {metric: leaders[metric] for metric in separated - ties}


def sort_leaderboard(board: Leaderboard, by: str) -> Leaderboard:
    """Return a leaderboard with its rows sorted by a score, best first, undefined last.

    The order stays if the leaderboard lacks the score, or none of its values is better than another.
    """
    column = next((number for number, metric in enumerate(board.metrics) if metric.name == by), None)
    if column is None:
        return board

    def key(row: tuple[str, tuple[Cell, ...]]) -> tuple[bool, float]:
        loss = compute_loss(board.metrics[column], row[1][column].value)
        return math.isnan(loss), 0.0 if math.isnan(loss) else loss

    return replace(board, rows=dict(sorted(board.rows.items(), key=key)))


def format_leaderboard(board: Leaderboard, table_format: TableFormat) -> str:
    """Return a leaderboard as text in a format."""
    return {"markdown": _to_markdown, "csv": _to_csv, "latex": _to_latex}[table_format](board)


def _to_markdown(board: Leaderboard) -> str:
    rows = [[_label(board, name), *describe_row(board, name, "**{}**")] for name in board.rows]
    table, notes = format_table(_heads(board), rows, latex=False), format_notes(board.notes, latex=False)
    return f"{table}{_note(board, '**bold**')}\n" + (f"\n{notes}" if notes else "")


def _to_csv(board: Leaderboard) -> str:
    box = io.StringIO()
    writer = csv.writer(box, lineterminator="\n")
    parts = ("", "_low", "_high", "_best")
    writer.writerow(["run", *(f"{metric.name}{part}" for metric in board.metrics for part in parts), "remark", "basis"])
    for name, cells in board.rows.items():
        values = [
            "" if math.isnan(number) else repr(number)
            for cell in cells
            for number in (cell.value, cell.interval.low, cell.interval.high, int(cell.is_best))
        ]
        basis = " ".join([f"{board.basis}.", *board.notes])
        writer.writerow([escape_formula(name), *values, escape_formula(board.remarks.get(name, "")), basis])
    return box.getvalue()


def _to_latex(board: Leaderboard) -> str:
    heads = [escape_latex(head).translate(_LATEX_ARROWS) for head in _heads(board)]
    rows = [[escape_latex(_label(board, name)), *describe_row(board, name, r"\textbf{{{}}}")] for name in board.rows]
    table = format_tabular(heads, rows, columns=f"l{'r' * len(board.metrics)}")
    return table + format_notes([_note(board, "bold"), *board.notes], latex=True)


def _heads(board: Leaderboard) -> list[str]:
    return ["run", *(f"{metric.name} {direction_of(metric)}".strip() for metric in board.metrics)]


def _note(board: Leaderboard, mark: str) -> str:
    return (
        f"{format_count(board.num_videos, 'video')}, micro average, 95 % intervals by bootstrap over videos; {mark}: "
        f"better than every other run, paired permutation test, p <= {MAX_P_VALUE:g}, corrected over the columns "
        f"(Benjamini-Hochberg); {board.basis}."
    )


def describe_row(board: Leaderboard, name: str, mark: str) -> list[str]:
    """Return the cells of a run as text, each with its interval; ``mark`` is the format of a best value."""
    return [_describe(metric, cell, mark) for metric, cell in zip(board.metrics, board.rows[name], strict=True)]


def _describe(metric: Metric, cell: Cell, mark: str) -> str:
    if math.isnan(cell.value):
        return "-"
    digits = 0 if metric.is_count else 3
    value = mark.format(f"{cell.value:.{digits}f}") if cell.is_best else f"{cell.value:.{digits}f}"
    return value if metric.is_count else f"{value} {cell.interval.describe()}".strip()


def direction_of(metric: Metric) -> str:
    """Return the sign of the better direction of a score, such as ``→0`` for one that is best at 0; empty for none."""
    if metric.name in BEST_VALUES:
        return f"→{BEST_VALUES[metric.name]:g}"
    return {"higher": "↑", "lower": "↓"}.get(metric.better, "")


def _label(board: Leaderboard, name: str) -> str:
    remark = f" ({board.remarks[name]})" if name in board.remarks else ""
    return " ".join(f"{name}{remark}".split())

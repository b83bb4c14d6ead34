"""One or more runs under several protocols side by side, the turns that count differently, and two runs compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.grading import COSINE_JUDGE, CosineBands, NamedJudge, RememberedGrades
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.bootstrap import NO_INTERVAL, Interval, bootstrap
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.protocols.rules import Rule, RuleCounts, read_video
from stepscope.eval.reports.baselines import ABOUT as BASELINES
from stepscope.eval.reports.entries import open_entries
from stepscope.eval.reports.statistics import Difference, compare_scores
from stepscope.eval.reports.table_formats import format_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolScore:
    """One score of one run under one rule."""

    value: float
    """nan if undefined."""
    interval: Interval = NO_INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRow:
    """One score of all runs under one rule."""

    rule: Rule
    score: str
    runs: Mapping[str, ProtocolScore]
    problem: str = ""
    """Why it is undefined in a run; empty if it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingTurn:
    """A reference turn that a run meets under some rules only."""

    video_id: str
    time_s: float
    text: str
    met: tuple[str, ...]
    """Names of the rules under which it is met at least in part."""
    missed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolTable:
    """Runs of one split under several rules."""

    rows: tuple[ProtocolRow, ...]
    judge: str
    text_encoder: str
    num_videos: int
    has_baselines: bool = False
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Videos that are not finished in all runs, each with the runs that have not finished it."""

    @property
    def basis(self) -> str:
        """The videos, judge and encoder of all numbers, in one line."""
        return (
            f"{format_count(self.num_videos, 'video')}, 95 % intervals by bootstrap over videos; contents are judged "
            f"by {self.judge}, text encoder {self.text_encoder}."
        )


def build_protocol_table(
    runs: Mapping[str, Path],
    split: Split,
    rules: Sequence[Rule],
    *,
    encode: Encode,
    text_encoder: str,
    judge: NamedJudge | None = None,
    baselines: bool = False,
    num_resamples: int = 1000,
) -> ProtocolTable:
    """Score runs, given by name, over their common videos of a split under each rule.

    Raises ``ValueError`` if they have no finished video in common.
    """
    entries = open_entries(runs, split, baselines=baselines)
    judge = judge or NamedJudge(name=COSINE_JUDGE, grade=CosineBands(encode))
    rows: list[ProtocolRow] = []
    counts = {name: entry.count(rules, entries.samples, grade=judge.grade) for name, entry in entries.rows.items()}
    for number, rule in enumerate(rules):
        found: dict[str, dict[str, ProtocolScore]] = {}
        for name, of_entry in counts.items():
            pool = Pool(of_entry[number], RuleCounts)
            intervals = bootstrap(pool, rule.summarize, num_resamples=num_resamples)
            for score, value in rule.summarize(pool.total()).items():
                one = ProtocolScore(value=value, interval=intervals.get(score, NO_INTERVAL))
                found.setdefault(score, {})[name] = one
        problems = [entry.explain_undefined(rule, entries.samples) for entry in entries.rows.values()]
        problem = next(filter(None, problems), "")
        rows += [ProtocolRow(rule=rule, score=score, runs=of_runs, problem=problem) for score, of_runs in found.items()]
    return ProtocolTable(
        rows=tuple(rows),
        judge=judge.name,
        text_encoder=text_encoder,
        num_videos=len(entries.samples),
        has_baselines=baselines,
        left_out=entries.left_out,
    )


def list_differing_turns(
    run: Path, split: Split, rules: Sequence[Rule], *, encode: Encode, judge: NamedJudge | None = None
) -> list[DifferingTurn]:
    """Return the reference turns that a run meets under some of the rules only; undefined rules are left out."""
    entries = open_entries({run.name: run}, split)
    entry = entries.rows[run.name]
    grade = RememberedGrades(CosineBands(encode) if judge is None else judge.grade)
    known = [rule for rule in rules if not entry.explain_undefined(rule, entries.samples)]
    turns: list[DifferingTurn] = []
    for sample in entries.samples:
        outputs = entry.outputs(sample)
        met: dict[int, dict[str, bool]] = {}
        for rule in known:
            video, positions = read_video(rule, sample, outputs, grade=grade)
            for position, credit in zip(positions, rule.count(video).credits, strict=True):
                met.setdefault(position, {})[rule.name] = credit > 0
        for position, by_rule in sorted(met.items()):
            if len(set(by_rule.values())) > 1:
                turn = sample.turns[position]
                names = {state: tuple(name for name, one in by_rule.items() if one is state) for state in (True, False)}
                turns.append(
                    DifferingTurn(
                        video_id=sample.video_id,
                        time_s=turn.time_s,
                        text=turn.text,
                        met=names[True],
                        missed=names[False],
                    )
                )
    return turns


def compare_protocols(
    a: Path, b: Path, split: Split, rules: Sequence[Rule], *, encode: Encode, num_resamples: int = 1000
) -> list[tuple[Rule, str, Difference]]:
    """Return each score under each rule with the paired test of two runs, over their common videos.

    Raises ``ValueError`` if they have no finished video in common.
    """
    entries = open_entries({"a": a, "b": b}, split)
    found: list[tuple[Rule, str, Difference]] = []
    counts = [entry.count(rules, entries.samples, grade=CosineBands(encode)) for entry in entries.rows.values()]
    for rule, *of_runs in zip(rules, *counts, strict=True):
        differences = compare_scores(*of_runs, kind=RuleCounts, score=rule.summarize, num_resamples=num_resamples)
        found += [(rule, score, difference) for score, difference in differences.items()]
    return found


def tabulate_protocols(table: ProtocolTable) -> list[dict[str, str | float]]:
    """Return a row per score and run, for CSV: each number with its rule, parameters, judge and encoder."""
    return [
        {
            "run": run,
            "protocol": row.rule.protocol.name,
            "parameters": row.rule.values,
            "score": row.score,
            "value": one.value,
            "low": one.interval.low,
            "high": one.interval.high,
            "judge": table.judge if row.rule.protocol.reads_contents else "none",
            "text_encoder": table.text_encoder,
            "problem": row.problem if math.isnan(one.value) else "",
        }
        for row in table.rows
        for run, one in row.runs.items()
    ]


def format_protocols(table: ProtocolTable, *, latex: bool) -> str:
    """Return a row per defined score, and a footnote per rule, as Markdown or LaTeX."""
    shown = [row for row in table.rows if not all(math.isnan(one.value) for one in row.runs.values())]
    names = list(table.rows[0].runs) if table.rows else []
    rows = [
        [row.rule.protocol.name, row.rule.values, row.score, *(_format_score(row.runs[name]) for name in names)]
        for row in shown
    ]
    undefined = {row.rule.name: row.problem for row in table.rows if row.problem}
    notes = [table.basis, *([BASELINES] if table.has_baselines else [])]
    notes += list(dict.fromkeys(row.rule.describe() for row in shown)) if latex else []
    notes += [f"{name} is undefined: {problem}." for name, problem in undefined.items()]
    return format_table(["protocol", "parameters", "score", *names], rows, notes, latex=latex)


def format_differing_turns(turns: Sequence[DifferingTurn]) -> str:
    """Return a row per turn as Markdown."""
    rows = [
        [turn.video_id, f"{turn.time_s:g}", turn.text, ", ".join(turn.met), ", ".join(turn.missed)] for turn in turns
    ]
    return format_table(["video", "time_s", "reference", "met under", "missed under"], rows, [], latex=False)


def tabulate_protocol_differences(
    found: Sequence[tuple[Rule, str, Difference]], text_encoder: str
) -> list[dict[str, str | float]]:
    """Return a row per compared score, for CSV and JSON."""
    return [
        {
            "protocol": rule.protocol.name,
            "parameters": rule.values,
            "score": score,
            "a": one.a,
            "b": one.b,
            "difference": one.difference,
            "low": one.interval.low,
            "high": one.interval.high,
            "p_value": one.p_value,
            "judge": COSINE_JUDGE if rule.protocol.reads_contents else "none",
            "text_encoder": text_encoder,
        }
        for rule, score, one in found
    ]


def format_protocol_differences(
    found: Sequence[tuple[Rule, str, Difference]], text_encoder: str, *, latex: bool
) -> str:
    """Return a row per compared score, and a footnote per rule, as Markdown or LaTeX."""
    shown = [(rule, score, one) for rule, score, one in found if not math.isnan(one.difference)]
    rows = [
        [
            rule.name,
            score,
            f"{one.a:.3f}",
            f"{one.b:.3f}",
            f"{one.difference:+.3f}",
            "" if math.isnan(one.interval.low) else f"[{one.interval.low:+.3f}, {one.interval.high:+.3f}]",
            f"{one.p_value:.3f}",
        ]
        for rule, score, one in shown
    ]
    basis = f"Contents are judged by {COSINE_JUDGE}, text encoder {text_encoder}; p of a paired permutation test."
    undefined = sorted({rule.name for rule, *_ in found} - {rule.name for rule, *_ in shown})
    notes = [basis, *([f"Undefined: {', '.join(undefined)}."] if undefined else [])]
    notes += list(dict.fromkeys(rule.describe() for rule, *_ in shown))
    return format_table(["protocol", "score", "A", "B", "B - A", "95 % interval", "p"], rows, notes, latex=latex)


def _format_score(one: ProtocolScore) -> str:
    if math.isnan(one.value):
        return "-"
    low, high = one.interval.low, one.interval.high
    return f"{one.value:.3f}" + ("" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]")

"""One or more runs under several protocols side by side, the turns that count differently, and two runs compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Role, Split
from stepscope.eval.matching.grading import COSINE_JUDGE, CosineBands, NamedJudge, RememberedGrades
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.counts import NO_INTERVAL, Interval, Pool, bootstrap
from stepscope.eval.protocols.rules import Rule, RuleCounts, read_video
from stepscope.eval.reports.entries import ABOUT as BASELINES
from stepscope.eval.reports.entries import open_entries
from stepscope.eval.reports.scoring import describe_scoring
from stepscope.eval.reports.statistics import SIGNIFICANCE_LEVEL, Difference, compare_scores
from stepscope.eval.reports.table_formats import format_notes, format_table


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
    difference: Difference | None = None
    """The paired test of two runs; None for one run, or for more."""

    @property
    def is_main(self) -> bool:
        """Whether it is the score that ranks runs."""
        return self.score == self.rule.protocol.main

    @property
    def is_defined(self) -> bool:
        """Whether a run has the score."""
        return not all(math.isnan(one.value) for one in self.runs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingTurn:
    """A reference turn that a run meets under some rules only."""

    video_id: str
    time_s: float
    role: Role
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
    origin: Mapping[str, str] = field(default_factory=dict)
    """``Split.origin`` of the references."""
    has_baselines: bool = False
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Videos that are not finished in all runs, each with the runs that have not finished it."""

    @property
    def basis(self) -> str:
        """The videos, judge and encoder of all numbers, in one line."""
        read = (row.rule for row in self.rows if row.is_defined and row.rule.protocol.reads_contents)
        judges = dict.fromkeys(map(self.name_judge, read))
        judge = " and ".join(judges) or self.judge
        scoring = describe_scoring({"judge": judge, "text_encoder": self.text_encoder, **self.origin})
        return f"{format_count(self.num_videos, 'video')}, 95 % intervals by bootstrap over videos; {scoring}."

    def list_defined(self) -> list[tuple[Rule, list[ProtocolRow]]]:
        """Return each rule that has defined scores, with these."""
        grouped = groupby((row for row in self.rows if row.is_defined), key=lambda row: row.rule)
        return [(rule, list(rows)) for rule, rows in grouped]

    def name_judge(self, rule: Rule) -> str:
        """Return the judge of the contents under a rule; ``none`` if they do not count."""
        protocol = rule.protocol
        return protocol.judge if protocol.has_categories or not protocol.reads_contents else self.judge


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
        differences: Mapping[str, Difference] = {}
        if len(runs) == 2:
            pair = [counts[name][number] for name in runs]
            differences = compare_scores(*pair, kind=RuleCounts, score=rule.summarize, num_resamples=num_resamples)
        for name, of_entry in counts.items():
            pool = Pool(of_entry[number], RuleCounts)
            intervals = bootstrap(pool, rule.summarize, num_resamples=num_resamples)
            for score, value in rule.summarize(pool.total()).items():
                one = ProtocolScore(value=value, interval=intervals.get(score, NO_INTERVAL))
                found.setdefault(score, {})[name] = one
        problems = [entry.explain_undefined(rule, entries.samples) for entry in entries.rows.values()]
        problem = next(filter(None, problems), "")
        rows += [
            ProtocolRow(rule=rule, score=score, runs=of_runs, problem=problem, difference=differences.get(score))
            for score, of_runs in found.items()
        ]
    return ProtocolTable(
        rows=tuple(rows),
        judge=judge.name,
        text_encoder=text_encoder,
        num_videos=len(entries.samples),
        origin=split.origin,
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
    grades = {rule.name: rule.choose_grade(entries.samples, grade) for rule in known}
    turns: list[DifferingTurn] = []
    for sample in entries.samples:
        outputs = entry.outputs(sample)
        met: dict[int, dict[str, bool]] = {}
        for rule in known:
            video, positions = read_video(rule, sample, outputs, grade=grades[rule.name])
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
                        role=turn.role,
                        text=turn.text,
                        met=names[True],
                        missed=names[False],
                    )
                )
    return turns


def describe_order(table: ProtocolTable) -> str:
    """Return which of two runs has the higher main score under which rules, in one line; empty for one run.

    A run leads only where the paired test separates them.
    """
    leads: dict[str, list[str]] = {}
    open_leads: dict[str, list[str]] = {}
    unclear: list[str] = []
    for row in table.rows:
        found = row.difference
        if not row.is_main or found is None or math.isnan(found.difference):
            continue
        is_shown, higher = found.p_value < SIGNIFICANCE_LEVEL, "B" if found.difference > 0 else "A"
        if not is_shown:
            unclear.append(row.rule.name)
        if found.difference:
            (leads if is_shown else open_leads).setdefault(higher, []).append(row.rule.name)
    words = [f"{run} leads under {', '.join(rules)}" for run, rules in sorted(leads.items())]
    words += [f"no difference is shown under {', '.join(unclear)}"] if unclear else []
    line = f"{'; '.join(words)}." if words else ""
    if len(leads) > 1:
        return f"The order depends on the protocol: {line}"
    if len(leads.keys() | open_leads.keys()) > 1:
        higher_in = [f"in {run} under {', '.join(rules)}" for run, rules in sorted(open_leads.items())]
        line += f" Without significance, the main score is higher {' and '.join(higher_in)}."
    return line[:1].upper() + line[1:]


def tabulate_protocols(table: ProtocolTable) -> list[dict[str, str | float]]:
    """Return a row per run, for CSV: each column is of one score under one rule, beside its parameters and judge."""
    rows: dict[str, dict[str, str | float]] = {}
    for one in table.rows:
        for run, score in one.runs.items():
            name = one.rule.name
            row = rows.setdefault(run, {"run": run, "text_encoder": table.text_encoder, **table.origin})
            row[f"{name} parameters"] = one.rule.values
            row[f"{name} judge"] = table.name_judge(one.rule)
            column = f"{name} {one.score}"
            row |= {column: score.value, f"{column} low": score.interval.low, f"{column} high": score.interval.high}
            row[f"{name} problem"] = one.problem if math.isnan(score.value) else ""
    return list(rows.values())


def tabulate_protocol_differences(table: ProtocolTable) -> list[dict[str, str | float]]:
    """Return a row per score of two compared runs, for CSV and JSON."""
    return [
        {
            "protocol": row.rule.protocol.name,
            "parameters": row.rule.values,
            "score": row.score,
            **row.difference.columns(),
            "judge": table.name_judge(row.rule),
            "text_encoder": table.text_encoder,
            **table.origin,
        }
        for row in table.rows
        if row.difference is not None
    ]


def format_protocols(table: ProtocolTable, *, latex: bool) -> str:
    """Return a table per rule, with runs in rows and scores in columns, and footnotes, as Markdown or LaTeX."""
    parts = []
    for rule, scores in table.list_defined():
        heads = [_head(rule, latex=latex), *(row.score for row in scores)]
        cells = [[run, *(_format_score(row.runs[run]) for row in scores)] for run in scores[0].runs]
        parts.append(format_table(heads, cells, latex=latex))
    return "".join([*parts, _format_notes(table, latex=latex)])


def format_protocol_differences(table: ProtocolTable, *, latex: bool) -> str:
    """Return a table per rule, with a row per score of two compared runs, and footnotes, as Markdown or LaTeX."""
    parts = []
    for rule, scores in table.list_defined():
        found = [(row.score, row.difference) for row in scores if row.difference is not None]
        heads = [_head(rule, latex=latex), "A", "B", "B - A", "95 % interval", "p"]
        cells = [
            [
                score,
                *(f"{value:.3f}" for value in (one.a, one.b)),
                f"{one.difference:+.3f}",
                one.interval.describe(sign="+"),
                f"{one.p_value:.3f}",
            ]
            for score, one in found
        ]
        parts.append(format_table(heads, cells, latex=latex))
    notes = filter(None, ("p of a paired permutation test.", describe_order(table)))
    return "".join([*parts, _format_notes(table, *notes, latex=latex)])


def format_differing_turns(turns: Sequence[DifferingTurn]) -> str:
    """Return a row per turn as Markdown."""
    rows = [
        [turn.video_id, f"{turn.time_s:g}", turn.text, ", ".join(turn.met), ", ".join(turn.missed)] for turn in turns
    ]
    return format_table(["video", "time_s", "reference", "met under", "missed under"], rows, latex=False)


def _head(rule: Rule, *, latex: bool) -> str:
    """Return the name of a rule with its parameters; those of LaTeX are in the footnote."""
    return rule.name if latex or not rule.values else f"{rule.protocol.name}: {rule.values}"


def _format_notes(table: ProtocolTable, *notes: str, latex: bool) -> str:
    rules = [rule.describe() for rule, _ in table.list_defined()] if latex else []
    undefined = {row.rule.name: row.problem for row in table.rows if row.problem}
    words = [f"{name} is undefined: {problem}." for name, problem in undefined.items()]
    baselines = [BASELINES] if table.has_baselines else []
    return format_notes([table.basis, *notes, *baselines, *rules, *words], latex=latex)


def _format_score(one: ProtocolScore) -> str:
    return "-" if math.isnan(one.value) else f"{one.value:.3f} {one.interval.describe()}".strip()

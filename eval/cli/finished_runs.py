"""The commands on finished runs, which need no checkpoint: ``score`` one again, ``compare`` two, ``import`` results."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from stepscope.engine.io.files import replace_files, replace_nan, to_json, write_csv, write_json
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import CompareOptions, ImportRunOptions, RescoreOptions
from stepscope.eval.cli.run_tables import open_judge, print_left_out
from stepscope.eval.cli.tables import make_score_settings, print_scores, write_scores
from stepscope.eval.data.json_fields import check_number
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.turns import Encode, import_encoder
from stepscope.eval.metrics.score import list_references
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.protocols.rules import Rule, parse_rules
from stepscope.eval.reports.compare_runs import FEW_VIDEOS, Comparison, compare_runs, find_common_split
from stepscope.eval.reports.protocol_table import (
    build_protocol_table,
    format_protocol_differences,
    tabulate_protocol_differences,
)
from stepscope.eval.reports.scoring import ScoreSettings, describe_scoring, read_run_scoring, score_run, write_tables
from stepscope.eval.reports.statistics import TESTS
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.reports.tables import format_differences, tabulate_differences
from stepscope.eval.runs.folder import RunFolder, relative_split
from stepscope.eval.runs.imports.import_results import import_into, import_without_split, list_missing
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.provenance import read_provenance


def score(options: RescoreOptions) -> int:
    """Score a run folder again and replace its tables; return 1 if a video has no scores.

    All files are written beside the old ones before the first one is replaced, so that errors change nothing. The
    settings of the scores in ``run.json`` follow.
    """
    run = RunFolder(options.run)
    split = read_split(options.split or run.split_path())
    settings = run.settings() or {}
    before = read_run_scoring(run)
    scoring = ScoreSettings(
        text_encoder=before.text_encoder if options.encoder is None else options.encoder,
        dataset=before.dataset if options.dataset is None else options.dataset,
        zero_cost=options.zero_cost or before.zero_cost,
    )
    _check_videos(run, split)
    references = list_references(split.samples)
    with (
        lock_folder(options.run),
        TextScorer(references=references) as scorer,
        open_judge(options, options.run) as judge,
    ):
        encoder = import_encoder(scoring.text_encoder)  # while METEOR starts
        scored = score_run(options.run, split, scoring, encode=encoder.encode, scorer=scorer, judge=judge)
        has_texts = (options.run / "metrics.json").exists() and read_metrics(options.run)["text_problem"] is None
        if scored.text_problem is not None and has_texts:
            raise ValueError(f"text scores cannot be computed, so that the folder keeps its: {scored.text_problem}")
        settings = {**settings, **asdict(scoring)}
        with replace_files(options.run) as staged:
            write_json(staged / "run.json", relative_split(settings, options.run))
            settings |= {"split": name_file(split.path), **encoder.settings()}
            write_tables(staged, scored, settings)
    changes = [f"split {name_file(split.path)}"] if options.split else []
    changes += [
        f"{name} {new or 'none'}" + ("" if old == new else f" (before: {old or 'none'})")
        for (name, old), new in zip(asdict(before).items(), asdict(scoring).values(), strict=True)
    ]
    print_scores(scored, f"{options.run}, scored again with {', '.join(changes)}", out=options.run)
    return 1 if scored.errors else 0


def compare(options: CompareOptions) -> int:
    """Print the differences of two runs; return 1 if a video is left out."""
    if options.latex and not options.protocol:
        raise ValueError("--latex needs --protocol")
    rules = parse_rules(options.protocol)
    runs = RunFolder(options.run_a), RunFolder(options.run_b)
    split, scoring = read_split(find_common_split(*runs, given=options.split)), read_run_scoring(runs[0])
    encode = import_encoder(scoring.text_encoder).encode
    if rules:
        return _compare_protocols(options, rules, split, encode, scoring.text_encoder)
    found = compare_runs(options.run_a, options.run_b, split, scoring, encode=encode)
    rows, basis = tabulate_differences(found.differences), describe_scoring(asdict(scoring) | split.origin)
    if options.out is not None:
        write_csv(options.out, [{**row, "scoring": basis} for row in rows])
    if options.json:
        names = {"a": str(options.run_a), "b": str(options.run_b), "split": str(split.path)}
        names |= asdict(scoring) | split.origin
        notes = {"num_videos": len(found.videos), "left_out": found.left_out}
        notes |= {name: getattr(found, name) for name in ("times_problem", "states_problem", "roots_problem")}
        print(to_json(replace_nan({**names, **notes, "differences": rows}), indent=1))
    else:
        _print_comparison(found, options, basis)
    if read_run_scoring(runs[1]) != scoring:
        print(f"warning: {options.run_b} was scored with other settings than {options.run_a}", file=sys.stderr)
    for video_id, reason in found.left_out.items():
        print(f"left out: {video_id}: {reason}", file=sys.stderr)
    return 1 if found.left_out else 0


def _compare_protocols(
    options: CompareOptions, rules: Sequence[Rule], split: Split, encode: Encode, text_encoder: str
) -> int:
    runs = {str(path): path for path in (options.run_a, options.run_b)}
    table = build_protocol_table(runs, split, rules, encode=encode, text_encoder=text_encoder)
    rows = tabulate_protocol_differences(table)
    if options.out is not None:
        write_csv(options.out, rows)
    if options.json:
        print(to_json(replace_nan({"a": str(options.run_a), "b": str(options.run_b), "differences": rows}), indent=1))
    else:
        print(f"{'% ' if options.latex else ''}A is {options.run_a}, B is {options.run_b}\n")
        print(format_protocol_differences(table, latex=options.latex), end="")
    return print_left_out(table.left_out)


def import_files(options: ImportRunOptions) -> int:
    """Import result files into a run folder and score it; return 1 if a file or a video of the split is unmatched."""
    scoring = make_score_settings(options)
    errors: Mapping[str, str] = {}
    if options.split is None:
        if options.fps is not None:
            check_number("--fps", options.fps, minimum=0.001, maximum=1000)
        problems = import_without_split(options.out, options.files, asdict(scoring), fps=options.fps, rule=options.rule)
        number = format_count(RunFolder(options.out).count_videos(), "video")
        print(f"{number} in {options.out}, without references and scores; give them with `stepscope score --split`")
    else:
        if options.fps is not None:
            raise ValueError("--fps is that of --split; leave one out")
        split = read_split(options.split)
        problems = import_into(options.out, options.files, split, asdict(scoring), rule=options.rule)
        with TextScorer(references=list_references(split.samples)) as scorer:
            encoder = import_encoder(scoring.text_encoder)
            scored = score_run(options.out, split, scoring, encode=encoder.encode, scorer=scorer)
            write_scores(options.out, scored, encoder)
        errors = scored.errors
    for line in list_missing(RunFolder(options.out).settings() or {}):
        print(line)
    for problem in problems.values():
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if errors or problems else 0


def _check_videos(run: RunFolder, split: Split) -> None:
    """Raise ``ValueError`` if a run has no video, or one that the split lacks."""
    num_videos = run.count_videos()
    if not num_videos:
        raise ValueError(f"{run.path} holds no finished video; run the split first")
    num_known = sum(run.record(entry.video_id) is not None for entry in split.entries)
    if num_known < num_videos:
        raise ValueError(
            f"{num_videos - num_known} of {format_count(num_videos, 'video')} of {run.path} are not in {split.path}; "
            f"give the split of the run, {run.split_path()}"
        )
    if not any(sample.has_reference and run.record(sample.video_id) is not None for sample in split.samples):
        copied = "; the turns there are a copy of the model's own" if any(s.is_copied for s in split.samples) else ""
        raise ValueError(
            f"no video of {run.path} has a reference in {split.path}{copied}; give --split with the references, "
            "such as a corrected split"
        )


def _with_remark(run: Path) -> str:
    remark = read_provenance(RunFolder(run)).asked_label
    return f"{run} ({remark})" if remark else str(run)


def _print_comparison(found: Comparison, options: CompareOptions, basis: str) -> None:
    a, b = map(_with_remark, (options.run_a, options.run_b))
    print(f"A is {a}, B is {b}; {format_count(len(found.videos), 'video')}")
    print(f"both scored as A: {basis}\n")
    print(format_differences(found.differences, found.labels))
    print(f"\n{TESTS}")
    if found.states_problem:
        print(f"\nupdates and states are not compared, nor their failures: {found.states_problem}")
    if found.roots is not None:
        print(f"\n{found.describe_roots()}")
    if found.roots_problem:
        print(f"\nroots are not compared: {found.roots_problem}")
    if found.times_problem:
        print(f"\ntimes are not compared: {found.times_problem}")
    if len(found.videos) < FEW_VIDEOS:
        print(f"\nfewer than {FEW_VIDEOS} videos: the intervals are too narrow; p is valid")

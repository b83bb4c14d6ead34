"""The commands on finished runs, which need no model: ``score`` one again, ``compare`` two."""

import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.io import replace_nan, to_json, write_csv, write_json
from eval.cli.commands import print_scores
from eval.cli.options import CompareOptions, RescoreOptions
from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.sentence_encoders import load_encoder
from eval.matching.turns import DEFAULT_ENCODER
from eval.metrics.text import TextScorer
from eval.reports.compare_runs import FEW_VIDEOS, Comparison, compare_runs
from eval.reports.scoring import ScoreSettings, read_score_settings, score_run, write_tables
from eval.reports.table_files import read_metrics
from eval.reports.tables import format_differences, tabulate_differences
from eval.runs.folder import RunFolder
from eval.runs.output_folder import lock_folder


def score(options: RescoreOptions) -> int:
    """Score a run folder again and replace its tables; return 1 if a video has no scores.

    All files are written beside the old ones before the first one is replaced, so that errors change nothing. The
    settings of the scores in ``run.json`` follow.
    """
    run = RunFolder(options.run)
    split = read_split(options.split or run.split_path())
    settings = run.settings() or {}
    before = _read_scoring(run)
    scoring = ScoreSettings(
        text_encoder=before.text_encoder if options.encoder is None else options.encoder,
        dataset=before.dataset if options.dataset is None else options.dataset,
        zero_cost=options.zero_cost or before.zero_cost,
    )
    _check_videos(run, split)
    encoder = load_encoder(scoring.text_encoder)
    with lock_folder(options.run), TextScorer() as scorer:
        scored = score_run(options.run, split, scoring, encode=encoder.encode, scorer=scorer)
        if scored.text_problem is not None and _has_text_scores(options.run):
            raise ValueError(f"text scores cannot be computed, so that the folder keeps its: {scored.text_problem}")
        settings = {**settings, **asdict(scoring)}
        with TemporaryDirectory(dir=options.run, prefix=".score.") as staged:
            write_json(Path(staged) / "run.json", settings)
            settings |= {"split": str(split.path.resolve()), **encoder.settings()}
            write_tables(Path(staged), scored, settings)
            for path in Path(staged).iterdir():
                path.replace(options.run / path.name)
    changes = [
        f"{name} {new or 'none'}" + ("" if old == new else f" (before: {old or 'none'})")
        for (name, old), new in zip(asdict(before).items(), asdict(scoring).values(), strict=True)
    ]
    print_scores(scored, f"{options.run}, scored again with {', '.join(changes)}", out=options.run)
    return 1 if scored.errors else 0


def compare(options: CompareOptions) -> int:
    """Print the differences of two runs; return 1 if a video is left out."""
    runs = RunFolder(options.run_a), RunFolder(options.run_b)
    paths = [run.split_path() for run in runs]
    if options.run_a.resolve() == options.run_b.resolve():
        raise ValueError(f"{options.run_a} and {options.run_b} are the same run; give two")
    if options.split is None and paths[0] != paths[1]:
        raise ValueError(f"the runs are of different splits, {paths[0]} and {paths[1]}; give --split to choose one")
    split, scoring = read_split(options.split or paths[0]), _read_scoring(runs[0])
    encode = load_encoder(scoring.text_encoder).encode
    found = compare_runs(options.run_a, options.run_b, split, scoring, encode=encode)
    rows = tabulate_differences(found.differences)
    if options.out is not None:
        write_csv(options.out, rows)
    if options.json:
        names = {"a": str(options.run_a), "b": str(options.run_b), "split": str(split.path), **asdict(scoring)}
        notes = {"num_videos": len(found.videos), "left_out": found.left_out, "times_problem": found.times_problem}
        print(to_json(replace_nan({**names, **notes, "differences": rows}), indent=1))
    else:
        _print_comparison(found, options, scoring)
    if _read_scoring(runs[1]) != scoring:
        print(f"warning: {options.run_b} was scored with other settings than {options.run_a}", file=sys.stderr)
    for video_id, reason in found.left_out.items():
        print(f"left out: {video_id}: {reason}", file=sys.stderr)
    return 1 if found.left_out else 0


def _read_scoring(run: RunFolder) -> ScoreSettings:
    """Return the settings that a run was scored with."""
    settings = run.settings() or {}
    encoder = settings.get("text_encoder")
    default = ScoreSettings(text_encoder=encoder if isinstance(encoder, str) and encoder else DEFAULT_ENCODER)
    return read_score_settings(settings, default=default)


def _check_videos(run: RunFolder, split: Split) -> None:
    """Raise ``ValueError`` if a run has no video, or one that the split lacks."""
    num_videos = run.count_videos()
    if not num_videos:
        raise ValueError(f"{run.path} holds no finished video; run the split first")
    num_known = sum(run.record(entry.video_id) is not None for entry in split.entries)
    if num_known < num_videos:
        raise ValueError(
            f"{num_videos - num_known} of the {num_videos} videos of {run.path} are not in {split.path}; "
            f"give the split of the run, {run.split_path()}"
        )


def _has_text_scores(folder: Path) -> bool:
    return (folder / "metrics.json").exists() and read_metrics(folder)["text_problem"] is None


def _print_comparison(found: Comparison, options: CompareOptions, scoring: ScoreSettings) -> None:
    print(f"A is {options.run_a}, B is {options.run_b}; {len(found.videos)} videos")
    print(f"both scored as A: text encoder {scoring.text_encoder}, zero_cost {scoring.zero_cost}\n")
    print(format_differences(found.differences))
    if found.times_problem:
        print(f"\ntimes are not compared: {found.times_problem}")
    if len(found.videos) < FEW_VIDEOS:
        print(f"\nfewer than {FEW_VIDEOS} videos: the intervals are too narrow; p (permutation test) is valid")

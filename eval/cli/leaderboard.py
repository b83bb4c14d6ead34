"""``leaderboard``: the runs of one split in a table."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from stepscope.engine.io.files import atomic_write
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import LeaderboardOptions
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.text_encoder import import_encoder
from stepscope.eval.reports.leaderboard import (
    DEFAULT_METRICS,
    build_leaderboard,
    check_leaderboard_metrics,
    format_leaderboard,
    sort_leaderboard,
)
from stepscope.eval.reports.scoring import read_run_scoring
from stepscope.eval.runs.folder import RunFolder


def leaderboard(options: LeaderboardOptions) -> int:
    """Print or write the leaderboard; return 1 if a video is left out."""
    metrics = options.metric or DEFAULT_METRICS
    check_leaderboard_metrics(metrics)
    if options.sort and options.sort not in metrics:
        raise ValueError(f"--sort {options.sort} must be one of the columns, {', '.join(metrics)}")
    runs = name_runs(options.runs)
    split = read_split(options.split or find_split(runs.values()))
    scoring = read_run_scoring(RunFolder(options.runs[0]))
    encode = import_encoder(scoring.text_encoder).encode
    board = build_leaderboard(runs, split, scoring, metrics=metrics, encode=encode, baselines=options.baselines)
    text = format_leaderboard(sort_leaderboard(board, options.sort), options.format)
    if options.out is None:
        sys.stdout.write(text)
    else:
        with atomic_write(options.out) as file:
            file.write(text)
        print(f"{format_count(len(board.rows), 'run')} written to {options.out}")
    return print_left_out(board.left_out)


def print_left_out(left_out: Mapping[str, Iterable[str]]) -> int:
    """Print the videos that are not in a table, each with the runs that have not finished it; return 1 if any."""
    for video_id, names in left_out.items():
        print(f"left out: {video_id}: not finished in {' and '.join(names)}", file=sys.stderr)
    return 1 if left_out else 0


def find_split(runs: Iterable[Path]) -> Path:
    """Return the split of runs. Raise ``ValueError`` if they are of different splits."""
    paths = [RunFolder(path).split_path() for path in runs]
    if len(set(paths)) > 1:
        raise ValueError(f"the runs are of different splits, {', '.join(map(str, paths))}; give --split")
    return paths[0]


def name_runs(paths: tuple[Path, ...]) -> dict[str, Path]:
    """Return the runs by the name of their folder; by their path below a common folder if names repeat."""
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        raise ValueError("a run is given twice; name each run once")
    names = [path.name for path in whole]
    if len(set(names)) < len(names):
        common = os.path.commonpath([path.parent for path in whole])
        names = [path.relative_to(common).as_posix() for path in whole]
    return dict(zip(names, whole, strict=True))

"""Command line of the evaluation: ``run`` a split, ``sweep`` thresholds, ``import`` results, print all ``metrics``.

Exit codes: 0 success; 1 finished with failed videos (each has its row); 2 usage or environment error, with one line of
explanation; 130 or 143 interrupted by Ctrl-C or SIGTERM. The finished videos are then kept, and ``--resume`` runs the
rest; an import must be repeated.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.interrupts import exit_code, exit_on_interrupt, handle_interrupts

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from engine.config import StreamConfig, format_thresholds, read_threshold
from engine.errors import EngineError
from eval.cli_options import (
    add_sweep_options,
    make_model_parser,
    make_score_parser,
    make_video_parser,
    parse_score_settings,
    parse_worker_config,
)
from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.sentence_encoders import load_encoder
from eval.metrics.definitions import NUM_FAILURES, to_markdown
from eval.metrics.text import TextScorer
from eval.reports.scoring import ScoredRun, ScoreSettings, score_run, write_tables
from eval.reports.tables import format_scores
from eval.runs.batch import FinishedVideo, run_batch
from eval.runs.folder import RunFolder, open_run_folder
from eval.runs.import_results import import_results
from eval.runs.progress import Progress
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.folder import open_sweep_folder, read_sweep, write_sweep
from eval.sweeps.grid import DEFAULT_METRICS, SWEEP_METRICS, Grid, GridScores, check_metrics, find_best, parse_axis
from eval.sweeps.preview import PREVIEW_METRICS, preview, read_traces


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _make_parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        with handle_interrupts():
            return int(options.command(options))
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        if getattr(options, "out", None):
            rest = f"finished videos are in {options.out}, --resume runs the rest"
            if not hasattr(options, "resume"):
                rest = f"{options.out} is not complete; remove it and import again"
            print(f"stopped; {rest}", file=sys.stderr)
        return exit_code(stop)


def print_metrics(_: argparse.Namespace) -> int:
    """Print ``docs/metrics.md``."""
    sys.stdout.write(to_markdown())
    return 0


def run(options: argparse.Namespace) -> int:
    """Stream every video of a split, write the run folder and the scores; return 1 if a video failed."""
    split = read_split(options.split, videos=options.videos)
    if not split.entries:
        raise ValueError(f"{options.split} holds no videos, so there is nothing to score")
    config = StreamConfig(
        speak_threshold=read_threshold(options.speak_threshold, "speak"),
        update_threshold=read_threshold(options.update_threshold, "update"),
    )
    worker_config = replace(parse_worker_config(options, config), live=options.teacher_forced)
    scoring = parse_score_settings(options)
    events = run_batch(
        split, worker_config, out=options.out, devices=options.devices, resume=options.resume, scoring=asdict(scoring)
    )
    with TextScorer() as scorer:  # it starts in the background while the videos are streamed
        with closing(events):
            _show_progress(events)
        return 1 if _score(options.out, split, scoring, scorer=scorer).errors else 0


def sweep(options: argparse.Namespace) -> int:
    """Score a split at every point of a grid and print the best; return 1 if a video has no scores."""
    split = read_split(options.split, videos=options.videos)
    grid = Grid(speak=parse_axis(options.speak), update=parse_axis(options.update))
    metrics = options.metric or (DEFAULT_METRICS if options.preview else (NUM_FAILURES, *DEFAULT_METRICS))
    check_metrics(metrics, known=PREVIEW_METRICS if options.preview else SWEEP_METRICS)
    scores = (_preview if options.preview else _sweep)(split, grid, options)
    for video_id, reason in scores.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    if scores.warning:
        print(f"warning: {scores.warning}", file=sys.stderr)
    kind = "exact" if scores.is_exact else f"preview from the traces of {options.preview}"
    print(f"{len(grid)} points, {kind}; {scores.num_videos} of {len(split.entries)} videos of {scores.split}")
    if options.out is not None:
        print(f"all points: {options.out}/sweep.csv")
    for name in metrics if scores.num_videos else ():
        print(f"best {find_best(scores, name)}")
    return 1 if scores.errors else 0


def import_files(options: argparse.Namespace) -> int:
    """Import result files into a run folder and score it; return 1 if a file or a video of the split is unmatched."""
    split = read_split(options.split)
    scoring = parse_score_settings(options)
    settings = {
        "split": str(split.path.resolve()),
        "imported": [str(path.resolve()) for path in options.files],
        **asdict(scoring),
    }
    with open_run_folder(options.out, settings) as folder:
        problems = import_results(options.files, split, folder=folder)
    with TextScorer() as scorer:
        scored = _score(options.out, split, scoring, scorer=scorer)
    for problem in problems.values():
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if scored.errors or problems else 0


def _preview(split: Split, grid: Grid, options: argparse.Namespace) -> GridScores:
    """Score a grid from a run's traces, and write the tables into ``--out`` if it is given."""
    scores = preview(read_traces(options.preview, split), grid)
    if options.out is not None:
        settings = {"split": str(split.path.resolve()), "run": str(options.preview.resolve())}
        with open_sweep_folder(options.out, settings, resume=options.resume):
            write_sweep(options.out, scores, settings)
    return scores


def _sweep(split: Split, grid: Grid, options: argparse.Namespace) -> GridScores:
    """Run a split at every point of a grid."""
    if options.out is None:
        raise ValueError("--out is missing; name a folder for the sweep, or a run to --preview")
    scoring = parse_score_settings(options)
    updates = run_sweep(
        split,
        parse_worker_config(options, StreamConfig()),
        grid,
        out=options.out,
        scoring=scoring,
        encode=load_encoder(scoring.text_encoder).encode,
        device=options.device,
        resume=options.resume,
    )
    with closing(updates):
        _show_sweep_progress(updates)
    return read_sweep(options.out)


def _score(out: Path, split: Split, scoring: ScoreSettings, *, scorer: TextScorer) -> ScoredRun:
    """Score a run folder, write its tables and print the main scores."""
    encoder = load_encoder(scoring.text_encoder)
    scored = score_run(out, split, scoring, encode=encoder.encode, scorer=scorer)
    settings = {**(RunFolder(out).settings() or {}), **encoder.settings()}
    write_tables(out, scored, settings)
    _print_scores(scored, settings, out=out)
    return scored


def _show_progress(events: Iterable[FinishedVideo | Progress]) -> None:
    """Draw the progress bar of frames and videos; print failures as they occur."""
    with tqdm(unit="frame", dynamic_ncols=True, smoothing=0.1) as bar:
        for event in events:
            if isinstance(event, Progress):
                bar.total = event.num_frames
                bar.set_postfix(videos=f"{event.num_finished}/{event.num_videos}", refresh=False)
                bar.update(event.num_done - bar.n)
            elif event.record.error and not event.is_kept:
                bar.write(f"failed: {event.record.video_id}: {event.record.error}", file=sys.stderr)


def _show_sweep_progress(updates: Iterable[SweepProgress]) -> None:
    """Draw the progress bar of runs, videos and model passes; print failures as they occur."""
    with tqdm(unit="run", dynamic_ncols=True, smoothing=0.1) as bar:
        for progress in updates:
            bar.total = progress.num_runs
            videos = f"{progress.num_finished}/{progress.num_videos}"
            bar.set_postfix(videos=videos, passes=progress.passes, refresh=False)
            bar.update(progress.num_done - bar.n)
            if progress.error:
                bar.write(f"failed: {progress.video_id}: {progress.error}", file=sys.stderr)


def _print_scores(scored: ScoredRun, settings: Mapping[str, Any], *, out: Path) -> None:
    report = scored.report
    print(f"{_format_heading(settings, report.num_videos, len(scored.rows))}\n")
    print(f"{format_scores(report.scores, report.intervals)}\n")
    print(f"all {len(report.scores)} scores: {out}/metrics.json; each video's: {out}/videos.csv")
    if scored.text_problem is not None:
        print(f"text scores are missing: {scored.text_problem}", file=sys.stderr)
    for video_id, warning in scored.warnings.items():
        print(f"warning: {video_id}: {warning}", file=sys.stderr)
    for video_id, reason in scored.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)


def _format_heading(settings: Mapping[str, Any], num_scored: int, num_videos: int) -> str:
    if "imported" in settings:
        origin = f"imported from {len(settings['imported'])} files"
    else:
        config, devices = settings["config"], ", ".join(dict.fromkeys(settings["devices"]))
        origin = (
            f"checkpoint {settings['checkpoint']} ({settings['model_digest'][:12]}) on {devices}, "
            f"thresholds {format_thresholds(config['speak_threshold'], config['update_threshold'])}"
        )
    return (
        f"{num_scored} of {num_videos} videos, micro average, 95 % intervals by bootstrap over videos\n{origin}\n"
        f"text encoder {settings['text_encoder']}, zero_cost {settings['zero_cost']}; "
        "definitions of the scores: docs/metrics.md"
    )


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scores, model, videos = make_score_parser(), make_model_parser(), make_video_parser()
    command = commands.add_parser("run", parents=[scores, model, videos], help="stream a split and score it")
    command.add_argument("split", type=Path, help="manifest of the split")
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        help="run folder to write; one that holds finished videos is refused without --resume, nothing is overwritten",
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="keep the finished videos of --out, whose settings and model must be equal, and run the rest",
    )
    command.add_argument(
        "--devices",
        default="auto",
        help="auto (all GPUs, else one process on the CPU), cuda (all), cuda:0,cuda:1, mps, cpu, cpu:2 for two "
        "processes of one thread each, or a Ray cluster: ray (this machine's, or $RAY_ADDRESS) or ray://HOST:10001 "
        "(default: %(default)s)",
    )
    for decision in ("speak", "update"):
        about = f"{decision} if the probability is greater (default: %(default)s)"
        command.add_argument(f"--{decision}-threshold", default=0.5, metavar="P", help=about)
    command.add_argument(
        "--teacher-forced",
        action="store_true",
        help="add VideoLLM-online's scores, from a second, teacher-forced pass over each video",
    )
    command.add_argument("--live", dest="teacher_forced", action="store_true", help=argparse.SUPPRESS)  # old spelling
    command.set_defaults(command=run)
    command = commands.add_parser(
        "sweep", parents=[scores, model, videos], help="score a split over a grid of thresholds"
    )
    add_sweep_options(command)
    command.set_defaults(command=sweep)
    command = commands.add_parser(
        "import", parents=[scores], help="import result files of published systems into a run folder"
    )
    command.add_argument(
        "files", type=Path, nargs="+", help="ProAssist's results/*.json, or the output of VideoLLM-online's demo.cli"
    )
    command.add_argument("--split", type=Path, required=True, help="manifest of the references")
    command.add_argument("--out", type=Path, required=True, help="run folder to write; it must be new or empty")
    command.set_defaults(command=import_files)
    command = commands.add_parser("metrics", help="print the definition of every score, as in docs/metrics.md")
    command.set_defaults(command=print_metrics)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Command line of the evaluation: ``run`` a split, ``sweep`` thresholds, ``import`` results, print all ``metrics``.

Exit codes: 0 all well; 1 done, but some videos failed (each has its row); 2 wrong use, with one line why; 130 or 143
stopped by Ctrl-C or SIGTERM: the finished videos are kept, and ``--resume`` goes on; an import is begun again.
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

from engine.config import StreamConfig, format_threshold, read_threshold
from engine.errors import EngineError
from eval.cli_options import add_sweep_options, model_options, score_options, scoring_of, video_options, work_of
from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.sentence_encoders import load_encoder
from eval.metrics.definitions import NUM_FAILURES, to_markdown
from eval.metrics.text import TextScorer
from eval.reports.scoring import ScoredRun, ScoreSettings, score_run, write_tables
from eval.reports.tables import format_scores
from eval.runs.batch import VideoDone, run_batch
from eval.runs.folder import RunFolder, claim
from eval.runs.import_results import import_results
from eval.runs.progress import Progress
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.folder import claim_sweep, read_sweep, write_sweep
from eval.sweeps.grid import DEFAULT_METRICS, SWEPT, Grid, GridScores, check_metrics, find_best, read_axis
from eval.sweeps.preview import PREVIEWED, preview, read_traces


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        with handle_interrupts():
            return int(options.work(options))
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
    """Stream every video of a split, write the run folder and the scores; 1 when a video failed."""
    split = read_split(options.split, videos=options.videos)
    if not split.entries:
        raise ValueError(f"{options.split} holds no videos; there is nothing to score")
    config = StreamConfig(
        speak_threshold=read_threshold(options.speak_threshold, "speak"),
        update_threshold=read_threshold(options.update_threshold, "update"),
    )
    work = replace(work_of(options, config), live=options.live)
    scoring = scoring_of(options)
    events = run_batch(
        split, work, out=options.out, devices=options.devices, resume=options.resume, scoring=asdict(scoring)
    )
    with TextScorer() as scorer:  # it starts in the background while the videos are streamed
        with closing(events):
            _show(events)
        return 1 if _score(options.out, split, scoring, scorer=scorer).errors else 0


def sweep(options: argparse.Namespace) -> int:
    """Score a split at every point of a grid and name the best; 1 when a video has no scores."""
    split = read_split(options.split, videos=options.videos)
    grid = Grid(speak=read_axis(options.speak), update=read_axis(options.update))
    metrics = options.metric or (DEFAULT_METRICS if options.preview else (NUM_FAILURES, *DEFAULT_METRICS))
    check_metrics(metrics, known=PREVIEWED if options.preview else SWEPT)
    scores = (_preview if options.preview else _sweep)(split, grid, options)
    for video_id, reason in scores.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    if scores.caution:
        print(f"beware: {scores.caution}", file=sys.stderr)
    kind = "exact" if scores.is_exact else f"preview from the traces of {options.preview}"
    print(f"{len(grid)} points, {kind}; {scores.num_videos} of {len(split.entries)} videos of {scores.split}")
    if options.out is not None:
        print(f"all points: {options.out}/sweep.csv")
    for name in metrics if scores.num_videos else ():
        print(f"best {find_best(scores, name)}")
    return 1 if scores.errors else 0


def import_files(options: argparse.Namespace) -> int:
    """Make a run folder of result files, and score it; 1 when a file or a video of the split has no part in it."""
    split = read_split(options.split)
    scoring = scoring_of(options)
    settings = {
        "split": str(split.path.resolve()),
        "imported": [str(path.resolve()) for path in options.files],
        **asdict(scoring),
    }
    with claim(options.out, settings) as folder:
        problems = import_results(options.files, split, folder=folder)
    with TextScorer() as scorer:
        scored = _score(options.out, split, scoring, scorer=scorer)
    for problem in problems.values():
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if scored.errors or problems else 0


def _preview(split: Split, grid: Grid, options: argparse.Namespace) -> GridScores:
    """Score a grid from a run's traces, and write the tables where that is wanted."""
    scores = preview(read_traces(options.preview, split), grid)
    if options.out is not None:
        settings = {"split": str(split.path.resolve()), "run": str(options.preview.resolve())}
        with claim_sweep(options.out, settings, resume=options.resume):
            write_sweep(options.out, scores, settings)
    return scores


def _sweep(split: Split, grid: Grid, options: argparse.Namespace) -> GridScores:
    """Run a split at every point of a grid."""
    if options.out is None:
        raise ValueError("--out is missing; name a folder for the sweep, or a run to --preview")
    scoring = scoring_of(options)
    moments = run_sweep(
        split,
        work_of(options, StreamConfig()),
        grid,
        out=options.out,
        scoring=scoring,
        encode=load_encoder(scoring.text_encoder).encode,
        device=options.device,
        resume=options.resume,
    )
    with closing(moments):
        _show_sweep(moments)
    return read_sweep(options.out)


def _score(out: Path, split: Split, scoring: ScoreSettings, *, scorer: TextScorer) -> ScoredRun:
    """Score a run folder, write its tables and print the main scores."""
    encoder = load_encoder(scoring.text_encoder)
    scored = score_run(out, split, scoring, encode=encoder.encode, scorer=scorer)
    settings = {**(RunFolder(out).settings() or {}), **encoder.settings()}
    write_tables(out, scored, settings)
    _print(scored, settings, out=out)
    return scored


def _show(events: Iterable[VideoDone | Progress]) -> None:
    """Draw the progress line: frames, rate, remaining time, and videos; say at once what failed."""
    with tqdm(unit="frame", dynamic_ncols=True, smoothing=0.1) as bar:
        for event in events:
            if isinstance(event, Progress):
                bar.total = event.num_frames
                bar.set_postfix(videos=f"{event.num_finished}/{event.num_videos}", refresh=False)
                bar.update(event.num_done - bar.n)
            elif event.record.error and not event.is_kept:
                bar.write(f"failed: {event.record.video_id}: {event.record.error}", file=sys.stderr)


def _show_sweep(moments: Iterable[SweepProgress]) -> None:
    """Draw the progress line: runs, and videos and model passes; say at once what failed."""
    with tqdm(unit="run", dynamic_ncols=True, smoothing=0.1) as bar:
        for moment in moments:
            bar.total = moment.num_runs
            videos = f"{moment.num_finished}/{moment.num_videos}"
            bar.set_postfix(videos=videos, passes=moment.passes, refresh=False)
            bar.update(moment.num_done - bar.n)
            if moment.error:
                bar.write(f"failed: {moment.video_id}: {moment.error}", file=sys.stderr)


def _print(scored: ScoredRun, settings: Mapping[str, Any], *, out: Path) -> None:
    report = scored.report
    print(f"{_heading(settings, report.num_videos, len(scored.rows))}\n")
    print(f"{format_scores(report.scores, report.intervals)}\n")
    print(f"all {len(report.scores)} scores: {out}/metrics.json; each video's: {out}/videos.csv")
    if scored.text_problem is not None:
        print(f"text scores are missing: {scored.text_problem}", file=sys.stderr)
    for video_id, remark in scored.remarks.items():
        print(f"remark: {video_id}: {remark}", file=sys.stderr)
    for video_id, reason in scored.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)


def _heading(settings: Mapping[str, Any], num_scored: int, num_videos: int) -> str:
    if "imported" in settings:
        origin = f"imported from {len(settings['imported'])} files"
    else:
        config, devices = settings["config"], ", ".join(dict.fromkeys(settings["devices"]))
        origin = (
            f"checkpoint {settings['checkpoint']} ({settings['model_digest'][:12]}) on {devices}, "
            f"thresholds speak {format_threshold(config['speak_threshold'])}, "
            f"update {format_threshold(config['update_threshold'])}"
        )
    return (
        f"{num_scored} of {num_videos} videos, micro average, 95 % intervals by bootstrap over videos\n{origin}\n"
        f"text encoder {settings['text_encoder']}, zero_cost {settings['zero_cost']}; "
        "what each score means: docs/metrics.md"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    scores, model, videos = score_options(), model_options(), video_options()
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
        help="keep the finished videos of --out, if its settings and model are these, and run the others",
    )
    command.add_argument(
        "--devices",
        default="auto",
        help="auto (all GPUs, else one process on the CPU), cuda (all), cuda:0,cuda:1, mps, cpu, cpu:2 for two "
        "processes of one thread each, or a Ray cluster: ray (this machine's, or $RAY_ADDRESS) or ray://HOST:10001 "
        "(default: %(default)s)",
    )
    for decision in ("speak", "update"):
        about = f"{decision} when the probability exceeds this (default: %(default)s)"
        command.add_argument(f"--{decision}-threshold", default=0.5, metavar="P", help=about)
    command.add_argument(
        "--live", action="store_true", help="VideoLLM-online's scores too: a second, teacher-forced pass"
    )
    command.set_defaults(work=run)
    command = commands.add_parser(
        "sweep", parents=[scores, model, videos], help="score a split over a grid of thresholds"
    )
    add_sweep_options(command)
    command.set_defaults(work=sweep)
    command = commands.add_parser("import", parents=[scores], help="make a run folder of published result files")
    command.add_argument(
        "files", type=Path, nargs="+", help="ProAssist's results/*.json, or what VideoLLM-online's demo.cli writes"
    )
    command.add_argument("--split", type=Path, required=True, help="the references")
    command.add_argument("--out", type=Path, required=True, help="run folder to write; it must be new or empty")
    command.set_defaults(work=import_files)
    command = commands.add_parser("metrics", help="print what every score means, as docs/metrics.md")
    command.set_defaults(work=print_metrics)
    return parser


if __name__ == "__main__":
    sys.exit(main())

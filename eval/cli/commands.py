"""The commands of the evaluation: ``run``, ``sweep``, ``import`` and ``metrics``."""

import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from engine.config import StreamConfig, format_thresholds
from eval.cli.options import (
    ImportOptions,
    MetricsOptions,
    RunOptions,
    ScoreOptions,
    StreamOptions,
    SweepOptions,
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
from eval.runs.worker import WorkerConfig
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.folder import open_sweep_folder, read_sweep, write_sweep
from eval.sweeps.grid import DEFAULT_METRICS, SWEEP_METRICS, Grid, GridScores, check_metrics, find_best, parse_axis
from eval.sweeps.preview import PREVIEW_METRICS, preview, read_traces


def print_metrics(_: MetricsOptions) -> int:
    """Print ``docs/metrics.md``."""
    sys.stdout.write(to_markdown())
    return 0


def run(options: RunOptions) -> int:
    """Stream every video of a split, write the run folder and the scores; return 1 if a video failed."""
    split = read_split(options.split, videos=options.videos)
    if not split.entries:
        raise ValueError(f"{options.split} holds no videos, so there is nothing to score")
    config = options.stream_config(speak_threshold=options.speak_threshold, update_threshold=options.update_threshold)
    worker_config = _worker_config(options, config, live=options.teacher_forced)
    scoring = _score_settings(options)
    events = run_batch(
        split, worker_config, out=options.out, devices=options.devices, resume=options.resume, scoring=asdict(scoring)
    )
    with TextScorer() as scorer:  # it starts in the background while the videos are streamed
        with closing(events):
            _show_progress(events)
        return 1 if _score(options.out, split, scoring, scorer=scorer).errors else 0


def sweep(options: SweepOptions) -> int:
    """Score a split at every point of a grid and print the best; return 1 if a video has no scores."""
    split = read_split(options.split, videos=options.videos)
    grid = Grid(speak=parse_axis(options.speak), update=parse_axis(options.update))
    metrics = options.metric or (DEFAULT_METRICS if options.preview else (NUM_FAILURES, *DEFAULT_METRICS))
    check_metrics(metrics, known=PREVIEW_METRICS if options.preview else SWEEP_METRICS)
    run = options.preview
    scores = _preview(run, split, grid, options) if run else _sweep(split, grid, options)
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


def import_files(options: ImportOptions) -> int:
    """Import result files into a run folder and score it; return 1 if a file or a video of the split is unmatched."""
    split = read_split(options.split)
    scoring = _score_settings(options)
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


def _preview(run: Path, split: Split, grid: Grid, options: SweepOptions) -> GridScores:
    """Score a grid from a run's traces, and write the tables into ``--out`` if it is given."""
    scores = preview(read_traces(run, split), grid)
    if options.out is not None:
        settings = {"split": str(split.path.resolve()), "run": str(run.resolve())}
        with open_sweep_folder(options.out, settings, resume=options.resume):
            write_sweep(options.out, scores, settings)
    return scores


def _sweep(split: Split, grid: Grid, options: SweepOptions) -> GridScores:
    """Run a split at every point of a grid."""
    if options.out is None:
        raise ValueError("--out is missing; name a folder for the sweep, or a run to --preview")
    scoring = _score_settings(options)
    updates = run_sweep(
        split,
        _worker_config(options, options.stream_config()),
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


def _score_settings(options: ScoreOptions) -> ScoreSettings:
    return ScoreSettings(text_encoder=options.encoder, dataset=options.dataset, zero_cost=options.zero_cost)


def _worker_config(options: StreamOptions, config: StreamConfig, *, live: bool = False) -> WorkerConfig:
    return WorkerConfig(
        checkpoint=options.checkpoint, heads=options.heads, config=config, live=live, features=options.features
    )


def _score(out: Path, split: Split, scoring: ScoreSettings, *, scorer: TextScorer) -> ScoredRun:
    """Score a run folder, write its tables and print the main scores."""
    encoder = load_encoder(scoring.text_encoder)
    scored = score_run(out, split, scoring, encode=encoder.encode, scorer=scorer)
    settings = {**(RunFolder(out).settings() or {}), **encoder.settings()}
    write_tables(out, scored, settings)
    print_scores(scored, _format_origin(settings), out=out)
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


def print_scores(scored: ScoredRun, origin: str, *, out: Path) -> None:
    """Print the main scores of a run folder, their origin, and the videos without scores."""
    report = scored.report
    print(
        f"{report.num_videos} of {len(scored.rows)} videos, micro average, 95 % intervals by bootstrap over videos\n"
        f"{origin}; definitions of the scores: docs/metrics.md\n"
    )
    print(f"{format_scores(report.scores, report.intervals)}\n")
    print(f"all {len(report.scores)} scores: {out}/metrics.json; each video's: {out}/videos.csv")
    if scored.text_problem is not None:
        print(f"text scores are missing: {scored.text_problem}", file=sys.stderr)
    for video_id, warning in scored.warnings.items():
        print(f"warning: {video_id}: {warning}", file=sys.stderr)
    for video_id, reason in scored.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)


def _format_origin(settings: Mapping[str, Any]) -> str:
    scoring = f"text encoder {settings['text_encoder']}, zero_cost {settings['zero_cost']}"
    if "imported" in settings:
        return f"imported from {len(settings['imported'])} files\n{scoring}"
    config, devices = settings["config"], ", ".join(dict.fromkeys(settings["devices"]))
    return (
        f"checkpoint {settings['checkpoint']} ({settings['model_digest'][:12]}) on {devices}, "
        f"thresholds {format_thresholds(config['speak_threshold'], config['update_threshold'])}\n{scoring}"
    )

"""``stepscope sweep``: scores a split at every point of a grid of thresholds."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from tqdm import tqdm

from stepscope.engine.decisions.signals import Decision
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.plurals import format_count
from stepscope.eval.cli.options import SweepOptions
from stepscope.eval.cli.run_command import make_worker_config
from stepscope.eval.cli.tables import BAR_DELAY_S, make_score_settings, name_unused_rate
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.turns import import_encoder
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.sweeps.best_point import (
    PresentPoint,
    check_metrics,
    compute_gain,
    explain_best,
    find_best,
    find_present,
    warn_of_edge,
)
from stepscope.eval.sweeps.exact import SweepProgress, read_swept_videos, run_sweep
from stepscope.eval.sweeps.folder import SweepFolder, SweptVideo, read_sweep, write_sweep
from stepscope.eval.sweeps.grid import DEFAULT_METRICS, SWEEP_METRICS, Grid, GridScores, parse_axis
from stepscope.eval.sweeps.preview import (
    PREVIEW_METRICS,
    TracedSignal,
    make_choice_grid,
    preview,
    preview_present,
    read_traces,
)

_DEFAULT_AXIS: Final = "0.1:0.9:9"
_AXIS_SIZE: Final = 9


def sweep(options: SweepOptions) -> int:
    """Score a split at every point of a grid and print the best; return 1 if a video has no scores."""
    split = read_split(options.split, videos=options.videos)
    if options.signal and not options.preview:
        raise ValueError("--signal is for --preview RUN: the model decides by its own probabilities")
    metrics = options.metric or (DEFAULT_METRICS if options.preview else (NUM_FAILURES, *DEFAULT_METRICS))
    check_metrics(metrics, known=PREVIEW_METRICS if options.preview else SWEEP_METRICS)
    swept = _preview(options.preview, split, options) if options.preview else _sweep(split, options)
    scores = swept.scores
    for video_id, reason in scores.errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    if scores.warning:
        print(f"warning: {scores.warning}", file=sys.stderr)
    kind = "exact" if scores.is_exact else f"preview from the traces of {options.preview}"
    print(
        f"{format_count(len(scores.grid), 'point')}, {kind}; {scores.num_videos} of "
        f"{format_count(len(split.entries), 'video')} of {scores.split}; {scores.basis}"
    )
    if options.out is not None:
        print(f"all points: {options.out}/sweep.csv")
    for name in metrics if scores.num_videos else ():
        if not options.metric and (name not in scores.metrics or np.isnan(scores.as_matrix(name)).all()):
            continue  # a default score of a decision that is not swept, or that the policy does not make
        print(_describe(swept, name))
    return 1 if scores.errors else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swept:
    """A grid with its scores, and the present point that the best one is compared with."""

    scores: GridScores
    present: PresentPoint | None
    videos: Sequence[SweptVideo] = ()
    """Counts of an exact sweep."""


def _describe(swept: _Swept, metric: str) -> str:
    """Return the best point by a score, with the gain over the present thresholds."""
    best = find_best(swept.scores, metric, present=swept.present)
    explained = explain_best(best, compute_gain(best, swept.videos) if swept.scores.is_exact else None)
    return ". ".join(filter(None, [f"best {best}", " ".join(filter(None, [explained, warn_of_edge(best)]))]))


def _preview(run: Path, split: Split, options: SweepOptions) -> _Swept:
    """Score a grid from a run's traces, and write the tables into ``--out`` if it is given."""
    traces = read_traces(run, split)
    choice = traces.choose(options.signal)
    given: dict[Decision, str | None] = {"speak": options.speak, "update": options.update}
    for signal, (decides, axis) in zip(choice, given.items(), strict=True):
        if signal is None and axis is not None:
            raise ValueError(f"--{decides} has no signal: the run has none that decides, or --signal left it out")
    grid = make_choice_grid(choice, lambda signal: _read_axis(given[signal.decides], signal))
    scores = preview(traces, grid)
    if options.out is not None:
        settings = {"split": name_file(split.path), "run": str(run.resolve())}
        with SweepFolder.open(options.out, settings, resume=options.resume):
            write_sweep(options.out, scores, settings)
    return _Swept(scores=scores, present=preview_present(traces, choice))


def _read_axis(text: str | None, signal: TracedSignal) -> tuple[float, ...]:
    return parse_axis(text or _DEFAULT_AXIS) if text or signal.spec is None else signal.make_axis(_AXIS_SIZE)


def _sweep(split: Split, options: SweepOptions) -> _Swept:
    worker_config = make_worker_config(options, options.stream_config())
    policy = worker_config.config.policy
    if options.update and not policy.has_updates:
        raise ValueError(f"{options.checkpoint} decides by {policy.name}, without an update threshold; omit --update")
    update = parse_axis(options.update or _DEFAULT_AXIS) if policy.has_updates else ()
    grid = Grid(speak=parse_axis(options.speak or _DEFAULT_AXIS), update=update, policy=policy)
    if options.out is None:
        raise ValueError("--out is missing; name a folder for the sweep, or a run to --preview")
    name_unused_rate(options, split)
    scoring = make_score_settings(options)
    updates = run_sweep(
        split,
        worker_config,
        grid,
        out=options.out,
        scoring=scoring,
        encode=import_encoder(scoring.text_encoder).encode,
        device=options.device,
        resume=options.resume,
    )
    with closing(updates):
        _show_sweep_progress(updates)
    scores, config = read_sweep(options.out), worker_config.config
    return _Swept(
        scores=scores,
        present=find_present(scores, (config.speak_threshold, config.update_threshold)),
        videos=read_swept_videos(options.out, split, num_points=len(grid)),
    )


def _show_sweep_progress(updates: Iterable[SweepProgress]) -> None:
    """Draw the progress bar of runs, videos and model passes; print failures as they occur."""
    with tqdm(unit="run", dynamic_ncols=True, smoothing=0.1, delay=BAR_DELAY_S) as bar:
        for progress in updates:
            bar.total = progress.num_runs
            videos = f"{progress.num_finished}/{progress.num_videos}"
            bar.set_postfix(videos=videos, passes=progress.passes, refresh=False)
            bar.update(progress.num_done - bar.n)
            if progress.error:
                bar.write(f"failed: {progress.video_id}: {progress.error}", file=sys.stderr)

"""``stepscope eval``: runs a split and scores it.

Workers stream the videos, so the model is not imported here. METEOR and the sentence encoder start beside them.
"""

import math
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, fields
from itertools import chain
from typing import Any, Final

from tqdm import tqdm

from stepscope.engine.cli.options import LoadingOptions
from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint_folder import UNTRAINED_SILENCE, find_policy_of, fit_policy
from stepscope.engine.plurals import format_count, format_memory
from stepscope.engine.records import is_decision
from stepscope.eval.cli.options import EvalOptions
from stepscope.eval.cli.tables import BAR_DELAY_S, make_score_settings, name_unused_rate, write_scores
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.matching.turns import import_encoder
from stepscope.eval.metrics.score import list_references
from stepscope.eval.metrics.text import TextScorer
from stepscope.eval.reports.scoring import score_run
from stepscope.eval.runs.batch import FinishedVideo, run_batch
from stepscope.eval.runs.estimate import estimate_run
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.tracking import import_trackio, open_tracker
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig

_WORKER_FIELDS: Final = frozenset(field.name for field in fields(WorkerConfig))


def run(options: EvalOptions) -> int:
    """Stream every video of a split, write the run folder and the scores; return 1 if a video failed."""
    split = read_split(options.split, videos=options.videos)
    if not split.entries:
        raise ValueError(f"{options.split} holds no videos, so there is nothing to score")
    config = options.stream_config(speak_threshold=options.speak_threshold, update_threshold=options.update_threshold)
    worker_config = make_worker_config(options, config, live=options.teacher_forced)
    name_unused_rate(options, split)
    if options.estimate is not None:
        return _estimate(split, worker_config, options)
    if options.out is None:
        raise ValueError("give --out, the run folder to write, or --estimate SECONDS")
    if options.trackio is not None:
        import_trackio()  # its absence is an error at once, not after hours
    scoring, out = make_score_settings(options), options.out
    events = run_batch(
        split, worker_config, out=out, devices=options.devices, resume=options.resume, scoring=asdict(scoring)
    )
    references = list_references(split.samples)
    with ThreadPoolExecutor(1) as pool, TextScorer(references=references) as scorer, closing(events):
        first = next(events)  # a refused folder is an error at once, before seconds of imports
        loading = pool.submit(import_encoder, scoring.text_encoder)
        settings = RunFolder(out).settings() or {}
        _show_progress(chain([first], events), dtype=settings.get("dtype", ""))
        encoder = loading.result()
        scored = score_run(out, split, scoring, encode=encoder.encode, scorer=scorer)
        write_scores(out, scored, encoder)
    run_folder = RunFolder(out)
    outputs = chain.from_iterable(map(run_folder.finished_outputs, split.samples))
    if settings.get("is_untrained") and not any(map(is_decision, outputs)):
        print(UNTRAINED_SILENCE)
    with open_tracker(options.trackio, out, run_folder.settings() or {}) as log:
        log(scored.report.scores, None)
    return 1 if scored.errors else 0


def _estimate(split: Split, worker_config: WorkerConfig, options: EvalOptions) -> int:
    """Print the estimated cost of a run, extrapolated from a part of it."""
    seconds = options.estimate or 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"--estimate must be a positive number of seconds; got {seconds:g}")
    if options.out is not None or options.resume:
        raise ValueError("--estimate writes no run folder: leave out --out and --resume")
    estimate = estimate_run(split, worker_config, devices=options.devices, seconds=seconds)
    video_s = sum(sample.num_frames / sample.fps for sample in split.samples)
    print(
        f"{format_count(estimate.num_videos, 'video')}, {estimate.num_frames:,} frames, {_duration(video_s)} of video\n"
        f"measured: {estimate.num_done:,} frames and {format_count(estimate.num_finished, 'finished video')} in "
        f"{_duration(estimate.elapsed_s)} on {format_count(estimate.num_workers, 'worker')}\n"
    )
    unknown = f"unknown: no video was finished in {_duration(estimate.elapsed_s)}"
    memory, size = estimate.peak_memory_mb, estimate.run_bytes
    frames_s = estimate.wall_s - estimate.start_s
    alone = (
        f", {_duration(estimate.num_workers * frames_s)} if one worker ran alone" if estimate.num_workers > 1 else ""
    )
    rows = {
        "time": f"{_duration(estimate.wall_s)}: {_duration(estimate.start_s)} until the first frame, then "
        f"{_duration(frames_s)} for all{alone}; the scores come after it",
        "speed": f"{estimate.frames_per_s:,.1f} frames/s",
        "memory": unknown if memory is None else f"{memory:,.0f} MiB for each worker",
        "storage": unknown if size is None else f"{size / 1e6:,.1f} MB",
    }
    for name, value in rows.items():
        print(f"{name:<9}{value}")
    return 0


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _show_progress(events: Iterable[FinishedVideo | Progress], *, dtype: str) -> None:
    """Draw the frames, the time left, the videos, the dtype and the memory; print failures as they occur."""
    with tqdm(unit="frame", dynamic_ncols=True, smoothing=0.1, delay=BAR_DELAY_S) as bar:
        for event in events:
            if isinstance(event, Progress):
                bar.total = event.num_frames
                memory = sum(worker.usage.memory_mb for worker in event.workers if worker.usage)
                videos = f"videos={event.num_finished}/{event.num_videos}"
                bar.set_postfix_str(f"{videos}, {dtype}, {format_memory(memory)}", refresh=False)
                bar.update(event.num_done - bar.n)
            elif event.record.error and not event.is_kept:
                bar.write(f"failed: {event.record.video_id}: {event.record.error}", file=sys.stderr)


def make_worker_config(options: LoadingOptions, config: StreamConfig, *, live: bool = False) -> WorkerConfig:
    """Return the settings of workers; ``config`` gets the policy of a checkpoint without trained heads."""
    trained = find_policy_of(options.checkpoint, heads=options.heads)
    # an option of the workers has the name of its field; --config alone is a file
    named: dict[str, Any] = {name: value for name, value in vars(options).items() if name in _WORKER_FIELDS}
    return WorkerConfig(**{**named, "config": fit_policy(config, trained, name=options.checkpoint), "live": live})

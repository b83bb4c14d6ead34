"""Exact sweep: every video of a split is run at every point of a grid, from neighbour to neighbour.

Several videos share a forward pass (see ``eval.sweeps.videos``). A video is embedded once. Its run at a point reuses
the common prefix with the run at the previous point (see ``engine.replay``). Most points therefore cost a fraction of a
run, and points with equal decisions cost nothing. ``run_sweep`` is a generator: it yields its progress at least at
every point, and closing it leaves the finished videos.
"""

import time
from collections.abc import Generator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from stepscope.engine.video.hardware import check_hardware
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.score import VideoCounts, score_counts
from stepscope.eval.reports.scoring import ScoreSettings, describe_scoring
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import explain_missing, explain_no_reference, explain_rerun, is_outcome_of, read_policy
from stepscope.eval.runs.pools.worker import load_checkpoint
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.folder import SweepFolder, SweptVideo, write_sweep
from stepscope.eval.sweeps.grid import SWEEP_METRICS, Grid, GridScores
from stepscope.eval.sweeps.videos import SweepStep, SweptPoints, sweep_videos

_REPORT_INTERVAL_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """Progress of a sweep at one moment. A run is one video at one point; kept videos are not counted in runs."""

    num_videos: int
    num_finished: int
    """Videos with a file: kept, finished or failed."""
    num_runs: int
    num_done: int
    num_frames: int
    frames_done: int
    passes: int
    """Model passes so far; a pass of several videos counts once."""
    remaining_s: float | None = None
    """Estimated seconds to the end; None before the first video is finished, whose points differ in cost."""
    video_id: str | None = None
    """A video in progress; None before the first and after the last."""
    error: str = ""
    """Why that video failed, in the first progress after its failure; otherwise empty."""


def run_sweep(
    split: Split,
    worker_config: WorkerConfig,
    grid: Grid,
    *,
    out: Path,
    scoring: ScoreSettings,
    encode: Encode,
    device: str = "auto",
    resume: bool = False,
) -> Generator[SweepProgress]:
    """Run the videos of a split at every point of a grid, and write their scores into ``out``.

    ``eval.sweeps.folder.read_sweep`` returns the scores of a finished sweep, ``score_sweep`` those of the videos that
    are finished so far. ``out`` is the sweep folder, see ``OutputFolder.open``; with ``resume`` it keeps the finished
    videos of an earlier sweep with the same settings. Thresholds and ``live`` of ``worker_config`` are ignored.
    ``encode`` is that of ``scoring.text_encoder``. ``device`` is one device, see ``eval.runs.batch.parse_devices``;
    ``cpu:1`` takes one thread, best for small models.

    Raises:
        ValueError: A device that does not exist, a folder that is refused, or a split without videos.
        EngineError: A checkpoint that cannot be loaded, or a device that decodes no video.
        OSError: A folder that cannot be written; no partial file remains.
    """
    if not split.samples:
        raise ValueError(f"{split.path} holds no valid videos, so there is nothing to sweep")
    split = _leave_unscored_out(split)
    if not split.samples:
        raise ValueError(f"no video of {split.path} has a reference, so that a sweep has no scores")
    policy = worker_config.config.policy
    if grid.specs or not grid.speak or bool(grid.update) != policy.has_updates:
        axes = "the speak and the update threshold" if policy.has_updates else "the speak threshold alone"
        raise ValueError(f"an exact sweep of a model that decides by {policy.name} is over {axes}")
    specs = parse_devices(device)
    if len(specs) != 1:
        raise ValueError(f"a sweep runs on one device; choose one of {', '.join(spec.device for spec in specs)}")
    check_hardware(worker_config.hardware_decoding, [specs[0].device])
    settings = build_sweep_settings(build_run_settings(split, worker_config, specs), grid, scoring) | split.origin
    with ExitStack() as stack:
        folder = stack.enter_context(SweepFolder.open(out, settings, resume=resume))
        stack.callback(torch.set_num_threads, torch.get_num_threads())  # load_checkpoint changes it
        pending = [sample for sample in split.samples if not _is_finished(folder, sample, grid)]
        before = {sample.video_id: folder.video(sample.video_id, num_points=len(grid)) for sample in pending}
        warnings = {sample.video_id: explain_rerun(before[sample.video_id], sample) for sample in pending}
        counter = _PointCounter(pending, num_videos=len(split.samples), num_points=len(grid))
        yield counter.progress()
        if pending:
            checkpoint = load_checkpoint(worker_config, specs[0])
            points = SweptPoints(grid=grid, scoring=scoring, encode=encode)
            steps = sweep_videos(checkpoint, worker_config, pending, points, num_sharing=specs[0].num_sharing)
            with closing(steps):
                for step in steps:
                    if step.swept is not None:
                        texts = filter(None, [step.swept.warning, warnings[step.swept.video_id]])
                        folder.save_video(replace(step.swept, warning="; ".join(texts)))
                    counter.handle(step)
                    if step.is_point_end or counter.is_due():
                        yield counter.progress(step)
        _write_scores(folder, split, grid, settings)
        yield counter.progress()


def score_sweep(folder: Path, split: Split, grid: Grid, settings: Mapping[str, Any]) -> GridScores:
    """Score the finished videos of a sweep folder; the unfinished videos of the split are in its errors.

    ``settings`` are those of the sweep.
    """
    errors = dict[str, str]()
    rows = read_swept_videos(folder, split, num_points=len(grid), errors=errors)
    points = []
    for place in range(len(grid)):
        scores = score_counts(Pool([video.runs[video.points[place]] for video in rows], VideoCounts).total())
        points.append({name: scores[name] for name in SWEEP_METRICS})
    return GridScores(
        split=str(split.path),
        is_exact=True,
        grid=replace(grid, policy=read_policy(settings)),
        points=tuple(points),
        num_videos=len(rows),
        errors=errors,
        scoring=describe_scoring(settings),
    )


def read_swept_videos(
    folder: Path, split: Split, *, num_points: int, errors: MutableMapping[str, str] | None = None
) -> list[SweptVideo]:
    """Return the finished videos of a sweep folder, in the order of the split; ``errors`` takes why one is missing."""
    files, videos = SweepFolder(folder), list[SweptVideo]()
    for entry in split.entries:
        video = files.video(entry.video_id, num_points=num_points)
        reason = explain_missing(entry, video)
        if reason and errors is not None:
            errors[entry.video_id] = reason
        elif video is not None and not reason:
            videos.append(video)
    return videos


def _leave_unscored_out(split: Split) -> Split:
    """Return a split whose samples without a reference are invalid records, with the reason."""
    entries = (
        InvalidSample(video_id=entry.video_id, reason=reason)
        if isinstance(entry, Sample) and (reason := explain_no_reference(entry))
        else entry
        for entry in split.entries
    )
    return replace(split, entries=tuple(entries))


def _write_scores(folder: SweepFolder, split: Split, grid: Grid, settings: Mapping[str, Any]) -> None:
    """Write the scores of all finished videos, with their warnings and model passes."""
    scores = score_sweep(folder.path, split, grid, settings)
    videos = [video for sample in split.samples if (video := folder.video(sample.video_id, num_points=len(grid)))]
    warnings = {video.video_id: video.warning for video in videos if video.warning}
    num_passes = sum(sum(video.passes) for video in videos)
    write_sweep(folder.path, scores, settings, warnings=warnings, num_passes=num_passes)


def _is_finished(folder: SweepFolder, sample: Sample, grid: Grid) -> bool:
    video = folder.video(sample.video_id, num_points=len(grid))
    return video is not None and not video.error and is_outcome_of(video, sample)


def build_sweep_settings(run_settings: Mapping[str, Any], grid: Grid, scoring: ScoreSettings) -> dict[str, Any]:
    """Return the settings of a sweep from those of a run; a sweep is resumed only with the same settings."""
    kept = {name: value for name, value in run_settings.items() if name not in ("devices", "live")}
    config = {name: value for name, value in run_settings["config"].items() if not name.endswith("_threshold")}
    return {**kept, "config": config, **asdict(scoring), "speak": grid.speak, "update": grid.update}


class _PointCounter:
    """Counts finished videos, runs, frames and passes."""

    def __init__(self, pending: Sequence[Sample], *, num_videos: int, num_points: int) -> None:
        self._lengths = {sample.video_id: sample.num_frames for sample in pending}
        self._num_videos, self._num_points = num_videos, num_points
        self._ended = list[str]()
        self._in_flight: dict[str, SweepStep] = {}
        self._passes = 0
        self._started_s = self._reported_s = time.perf_counter()

    def is_due(self) -> bool:
        return time.perf_counter() - self._reported_s > _REPORT_INTERVAL_S

    def handle(self, step: SweepStep) -> None:
        """Count the points of a video; of a failed one, the runs that were left out count as done."""
        self._passes = step.passes
        self._in_flight[step.video_id] = step
        if step.swept is not None:
            del self._in_flight[step.video_id]
            self._ended.append(step.video_id)

    def progress(self, step: SweepStep | None = None) -> SweepProgress:
        self._reported_s = time.perf_counter()
        num_frames = self._num_points * sum(self._lengths.values())
        frames_done = self._num_points * sum(self._lengths[video_id] for video_id in self._ended)
        frames_done += sum(step.num_frames for step in self._in_flight.values())
        elapsed_s = self._reported_s - self._started_s
        return SweepProgress(
            num_videos=self._num_videos,
            num_finished=self._num_videos - len(self._lengths) + len(self._ended),
            num_runs=self._num_points * len(self._lengths),
            num_done=self._num_points * len(self._ended) + sum(step.num_points for step in self._in_flight.values()),
            num_frames=num_frames,
            frames_done=frames_done,
            passes=self._passes,
            remaining_s=elapsed_s * (num_frames / frames_done - 1) if self._ended and frames_done else None,
            video_id=None if step is None else step.video_id,
            error="" if step is None or step.swept is None else step.swept.error,
        )

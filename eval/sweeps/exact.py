"""Exact sweep: every video of a split is run at every point of a grid, from neighbour to neighbour.

A video is embedded once. Its run at a point reuses the common prefix with the run at the previous point (see
``engine.replay``). Most points therefore cost a fraction of a run, and points with equal decisions cost nothing.
``run_sweep`` is a generator: it yields its progress at least at every point, and closing it leaves the finished videos.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from engine.errors import EngineError
from engine.model.checkpoint import Checkpoint
from engine.records import FrameOutput, check_probs
from engine.replay import Recording
from eval.data.samples import Sample, Split
from eval.matching.turns import Encode
from eval.metrics.counts import Pool, Values
from eval.metrics.decisions import DecisionCounts
from eval.metrics.score import VideoCounts, analyze_video, score_counts
from eval.metrics.system import SystemCounts
from eval.reports.scoring import ScoreSettings
from eval.runs.batch import build_run_settings, parse_devices
from eval.runs.folder import digest_sample, explain_missing
from eval.runs.worker import WorkerConfig, build_task, embed_sample, load_checkpoint
from eval.sweeps.folder import SweepFolder, SweptVideo, open_sweep_folder, write_sweep
from eval.sweeps.grid import SWEEP_METRICS, Grid, GridPoint, GridScores

_REPORT_INTERVAL_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """Progress of a sweep at one moment. A run is one video at one point; kept videos are not counted in runs."""

    num_videos: int
    """Valid videos of the split."""
    num_finished: int
    """Videos with a file: kept, finished or failed."""
    num_runs: int
    """Runs in total."""
    num_done: int
    """Runs that are done."""
    passes: int
    """Model passes so far."""
    elapsed_s: float
    """Seconds since the sweep began."""
    video_id: str | None = None
    """The video in progress; None before the first and after the last."""
    error: str = ""
    """Why that video failed, in the first progress after its failure; otherwise empty."""

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end; None before the first run."""
        return self.elapsed_s * (self.num_runs / self.num_done - 1) if self.num_done else None


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
    are finished so far.

    Args:
        split: The split from ``read_split``.
        worker_config: Checkpoint and settings; its thresholds and ``live`` are ignored.
        grid: The points.
        out: The sweep folder; ``eval.sweeps.folder.open_sweep_folder`` lists the folders that are refused.
        scoring: Match window and treatment of zero-cost matches.
        encode: Texts to embeddings ``[N, D]``, of ``scoring.text_encoder``.
        device: One device, see ``eval.runs.batch.parse_devices``; ``cpu:1`` takes one thread, best for small models.
        resume: Keep the finished videos of an earlier sweep with the same settings.

    Raises:
        ValueError: A device that does not exist, a folder that is refused, or a split without videos.
        EngineError: A checkpoint that cannot be loaded.
        OSError: A folder that cannot be written; no partial file remains.
    """
    if not split.samples:
        raise ValueError(f"{split.path} holds no valid videos, so there is nothing to sweep")
    specs = parse_devices(device)
    if len(specs) != 1:
        raise ValueError(f"a sweep runs on one device; choose one of {', '.join(spec.device for spec in specs)}")
    settings = build_sweep_settings(build_run_settings(split, worker_config, specs), grid, scoring)
    with open_sweep_folder(out, settings, resume=resume) as folder, _set_threads(specs[0].num_threads):
        pending = [sample for sample in split.samples if not _is_finished(folder, sample, grid)]
        counter = _ProgressCounter(num_videos=len(split.samples), num_runs=len(pending) * len(grid))
        counter.num_finished = len(split.samples) - len(pending)
        yield counter.progress()
        checkpoint = load_checkpoint(worker_config, specs[0]) if pending else None
        for sample in pending:
            assert checkpoint is not None
            swept = yield from _sweep_video(
                sample,
                checkpoint=checkpoint,
                worker_config=worker_config,
                grid=grid,
                scoring=scoring,
                encode=encode,
                counter=counter,
            )
            folder.save_video(swept)
            counter.finish(grid)
            yield replace(counter.progress(sample.video_id), error=swept.error)
        _write_scores(folder, split, grid, settings)
        yield counter.progress()


def score_sweep(folder: Path, split: Split, grid: Grid) -> GridScores:
    """Score the finished videos of a sweep folder; the unfinished videos of the split are in its errors."""
    files, errors, rows = SweepFolder(folder), dict[str, str](), list[SweptVideo]()
    for entry in split.entries:
        video = files.video(entry.video_id, num_points=len(grid))
        reason = explain_missing(entry, video)
        if reason:
            errors[entry.video_id] = reason
        elif video is not None:
            rows.append(video)
    points = []
    for place, (speak, update) in enumerate(grid.pairs()):
        counts = Pool([video.runs[video.points[place]] for video in rows], VideoCounts).total()
        scores = score_counts(counts)
        points.append(
            GridPoint(
                speak_threshold=speak, update_threshold=update, scores={name: scores[name] for name in SWEEP_METRICS}
            )
        )
    return GridScores(
        split=str(split.path), is_exact=True, grid=grid, points=tuple(points), num_videos=len(rows), errors=errors
    )


def _write_scores(folder: SweepFolder, split: Split, grid: Grid, settings: Mapping[str, Any]) -> None:
    """Write the scores of all finished videos, with their warnings and model passes."""
    scores = score_sweep(folder.path, split, grid)
    videos = [video for sample in split.samples if (video := folder.video(sample.video_id, num_points=len(grid)))]
    warnings = {video.video_id: video.warning for video in videos if video.warning}
    num_passes = sum(sum(video.passes) for video in videos)
    write_sweep(folder.path, scores, settings, warnings=warnings, num_passes=num_passes)


def _sweep_video(
    sample: Sample,
    *,
    checkpoint: Checkpoint,
    worker_config: WorkerConfig,
    grid: Grid,
    scoring: ScoreSettings,
    encode: Encode,
    counter: "_ProgressCounter",
) -> Generator[SweepProgress, None, SweptVideo]:
    """Run one video at every point; an invalid video becomes a ``SweptVideo`` with an error."""
    source = digest_sample(sample)
    recording: Recording | None = None
    runs: dict[Any, int] = {}
    counts: list[VideoCounts] = []
    points, passes = [0] * len(grid), [0] * len(grid)
    pairs = list(grid.pairs())
    try:
        embedded = embed_sample(checkpoint, worker_config, sample)
        for place in grid.snake_order():
            speak, update = pairs[place]
            if recording is None:
                config = replace(worker_config.config, fps=sample.fps, speak_threshold=speak, update_threshold=update)
                recording = Recording(checkpoint, embedded.frames, task=build_task(sample), config=config)
            else:
                recording = recording.at(speak_threshold=speak, update_threshold=update)
            for _ in map(check_probs, recording.run()):
                if counter.is_due():
                    yield counter.progress(sample.video_id, passes=recording.counts.passes)
            passes[place] = recording.counts.passes
            points[place] = runs.setdefault(_make_run_key(recording.outputs), len(counts))
            if points[place] == len(counts):
                counts.append(_count(sample, recording, scoring, encode))
            counter.add_run(passes[place])
            yield counter.progress(sample.video_id)
    except (EngineError, ValueError) as error:
        return SweptVideo(video_id=sample.video_id, source=source, error=str(error))
    return SweptVideo(
        video_id=sample.video_id,
        source=source,
        runs=tuple(counts),
        points=tuple(points),
        passes=tuple(passes),
        warning=embedded.warning,
    )


def _count(sample: Sample, recording: Recording, scoring: ScoreSettings, encode: Encode) -> VideoCounts:
    """Count one run, without probabilities and times, which a sweep does not score."""
    counts = analyze_video(
        sample,
        recording.outputs,
        encode=encode,
        dataset=scoring.dataset,
        zero_cost=scoring.zero_cost,
    ).counts
    return replace(
        counts,
        speaking=_without_probs(counts.speaking),
        updating=_without_probs(counts.updating),
        system=SystemCounts(),
    )


def _without_probs(counts: DecisionCounts) -> DecisionCounts:
    return replace(counts, expected_probs=Values.of(), other_probs=Values.of())


def _make_run_key(outputs: Sequence[FrameOutput]) -> tuple[tuple[int, tuple[str, ...], str | None], ...]:
    """Return a key of a run: two runs of a video have equal counts if they wrote the same texts at the same frames."""
    return tuple(
        (output.frame_index, output.updates, output.response)
        for output in outputs
        if output.updates or output.response is not None
    )


def _is_finished(folder: SweepFolder, sample: Sample, grid: Grid) -> bool:
    video = folder.video(sample.video_id, num_points=len(grid))
    return video is not None and not video.error and video.source == digest_sample(sample)


@contextmanager
def _set_threads(number: int | None) -> Iterator[None]:
    """Set torch's number of threads within the ``with`` block; None keeps it."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_sweep_settings(run_settings: Mapping[str, Any], grid: Grid, scoring: ScoreSettings) -> dict[str, Any]:
    """Return the settings of a sweep from those of a run; a sweep is resumed only with the same settings."""
    kept = {name: value for name, value in run_settings.items() if name not in ("devices", "live")}
    config = {name: value for name, value in run_settings["config"].items() if not name.endswith("_threshold")}
    return {**kept, "config": config, **asdict(scoring), "speak": grid.speak, "update": grid.update}


class _ProgressCounter:
    """Counts finished videos, runs and passes."""

    def __init__(self, *, num_videos: int, num_runs: int) -> None:
        self.num_finished = 0
        self._num_videos, self._num_runs = num_videos, num_runs
        self._num_done = self._num_before = self._passes = 0
        self._started_s = self._reported_s = time.perf_counter()

    def is_due(self) -> bool:
        return time.perf_counter() - self._reported_s > _REPORT_INTERVAL_S

    def add_run(self, passes: int) -> None:
        self._num_done += 1
        self._passes += passes

    def finish(self, grid: Grid) -> None:
        """Count a finished video; of a failed one, the runs that were left out count as done."""
        self.num_finished += 1
        self._num_before += len(grid)
        self._num_done = self._num_before

    def progress(self, video_id: str | None = None, *, passes: int = 0) -> SweepProgress:
        self._reported_s = time.perf_counter()
        return SweepProgress(
            num_videos=self._num_videos,
            num_finished=self.num_finished,
            num_runs=self._num_runs,
            num_done=self._num_done,
            passes=self._passes + passes,
            elapsed_s=self._reported_s - self._started_s,
            video_id=video_id,
        )

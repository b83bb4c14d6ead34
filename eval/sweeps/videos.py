"""The videos of an exact sweep, several in one forward pass; each walks over the grid from neighbour to neighbour.

A video that has finished a point takes its place in the next pass with its next point, and makes room for the next
video after its last one. The runs of each video are those of a video alone.
"""

import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from stepscope.engine.errors import EngineError
from stepscope.engine.inference.memory import choose_batch_size
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.encoder_pool import EncoderPool, count_cores
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording, run_recordings
from stepscope.engine.stream import Streamer
from stepscope.eval.data.samples import Sample, build_task, describe_other_end
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.decisions import DecisionCounts
from stepscope.eval.metrics.score import VideoCounts, analyze_video
from stepscope.eval.metrics.system import SystemCounts
from stepscope.eval.metrics.values import Values
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import digest_sample
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.folder import SweptVideo
from stepscope.eval.sweeps.grid import Grid

RunKey = tuple[tuple[int, tuple[str, ...], str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptPoints:
    """The points of a sweep, and how their runs are counted."""

    grid: Grid
    scoring: ScoreSettings
    encode: Encode


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """An event of a video: a frame, the end of a point, or the end of the video."""

    video_id: str
    num_points: int
    is_point_end: bool
    num_frames: int
    passes: int
    """Model passes so far, of all videos; a pass of several counts once."""
    swept: SweptVideo | None = None
    """The video once it is finished or has failed."""


class _Walk:
    """The walk of one video over the grid."""

    def __init__(
        self, features: SampleFeatures, worker_config: WorkerConfig, sample: Sample, points: SweptPoints
    ) -> None:
        self.sample, self._points = sample, points
        unswept = worker_config.config.update_threshold  # without updates it has no effect
        self._pairs = [(speak, unswept if math.isnan(update) else update) for speak, update in points.grid.pairs()]
        self._order = list(points.grid.snake_order())
        self._warnings, self._counts = list[str](), list[VideoCounts]()
        self._runs: dict[RunKey, int] = {}
        self._indices, self._passes = [0] * len(self._pairs), [0] * len(self._pairs)
        self.num_points = 0
        speak, update = self._pairs[self._order[0]]
        config = replace(worker_config.config, fps=sample.fps, speak_threshold=speak, update_threshold=update)
        frames = features.embed(sample, self._warnings)
        self.recording = Recording(features.checkpoint, frames, task=build_task(sample), config=config)

    @property
    def is_finished(self) -> bool:
        """Whether all points are done."""
        return self.num_points == len(self._pairs)

    def finish_point(self) -> None:
        """Count the run that has ended, and prepare the next one. Raises ``ValueError`` if it cannot be counted."""
        recording, place = self.recording, self._order[self.num_points]
        self._passes[place] = recording.counts.passes
        self._indices[place] = self._runs.setdefault(_make_run_key(recording.outputs), len(self._counts))
        if self._indices[place] == len(self._counts):
            self._counts.append(_count(self.sample, recording, self._points))
        self.num_points += 1
        if not self.is_finished:
            speak, update = self._pairs[self._order[self.num_points]]
            self.recording = recording.at(speak_threshold=speak, update_threshold=update)

    def finish(self, error: str = "") -> SweptVideo:
        """Return the finished or failed video."""
        video_id, source = self.sample.video_id, digest_sample(self.sample)
        if error:
            return SweptVideo(video_id=video_id, source=source, error=error)
        other_end = describe_other_end(self.sample, len(self.recording.outputs))
        warnings = self._warnings + ([f"the video {other_end}"] if other_end else [])
        return SweptVideo(
            video_id=video_id,
            source=source,
            runs=tuple(self._counts),
            points=tuple(self._indices),
            passes=tuple(self._passes),
            warning="; ".join(dict.fromkeys(warnings)),
        )


def sweep_videos(
    checkpoint: Checkpoint,
    worker_config: WorkerConfig,
    samples: Sequence[Sample],
    points: SweptPoints,
    *,
    num_sharing: int = 1,
) -> Generator[SweepStep]:
    """Run samples at every point; an invalid video becomes a ``SweptVideo`` with an error, alone.

    Without a batch size in its settings, it is chosen from the free memory, which ``num_sharing`` processes share, as
    the cores. The points come in the order of ``Grid.snake_order``.
    """
    config = worker_config.config
    batch_size = worker_config.batch_size or choose_batch_size(checkpoint.model, config, num_sharing=num_sharing)
    streamer, waiting = Streamer(checkpoint, config), deque(samples)
    walks, ready = dict[Recording, _Walk](), deque[Recording]()
    num_cores = count_cores(num_sharing=num_sharing)
    with EncoderPool(checkpoint, num_cores=num_cores, num_videos=batch_size) as pool:
        features = SampleFeatures.of_run(checkpoint, worker_config, pool.encode)

        def next_recordings() -> Iterator[Recording | None]:
            while True:
                if not ready and waiting:
                    walk = _Walk(features, worker_config, waiting.popleft(), points)
                    walks[walk.recording] = walk
                    ready.append(walk.recording)
                yield ready.popleft() if ready else None

        runs = run_recordings(streamer, next_recordings(), max_batch_size=batch_size, checks_probs=True)
        with closing(runs):
            for recording, event in runs:
                walk, is_end = walks[recording], event.output is None
                swept = _advance(walk, event.error) if is_end else None
                if is_end:
                    del walks[recording]
                if is_end and swept is None:
                    walks[walk.recording] = walk
                    ready.append(walk.recording)
                yield SweepStep(
                    video_id=walk.sample.video_id,
                    num_points=walk.num_points,
                    is_point_end=is_end,
                    num_frames=walk.num_points * walk.sample.num_frames
                    + (0 if event.output is None else event.output.frame_index + 1),
                    passes=streamer.counts.passes,
                    swept=swept,
                )


def _advance(walk: _Walk, error: Exception | None) -> SweptVideo | None:
    """End a point of a video; return the video if that was its last point, or if it failed."""
    if error is None:
        try:
            walk.finish_point()
        except (EngineError, ValueError) as failure:
            error = failure
    if error is not None:
        return walk.finish(str(error))
    return walk.finish() if walk.is_finished else None


def _count(sample: Sample, recording: Recording, points: SweptPoints) -> VideoCounts:
    """Count one run, without probabilities and times, which a sweep does not score."""
    counts = analyze_video(
        sample,
        recording.outputs,
        encode=points.encode,
        dataset=points.scoring.dataset,
        zero_cost=points.scoring.zero_cost,
        has_states=recording.config.policy.has_updates,
    ).counts
    return replace(
        counts,
        speaking=_without_probs(counts.speaking),
        updating=_without_probs(counts.updating),
        system=SystemCounts(),
    )


def _without_probs(counts: DecisionCounts) -> DecisionCounts:
    return replace(counts, expected_probs=Values.of(), other_probs=Values.of())


def _make_run_key(outputs: Sequence[FrameOutput]) -> RunKey:
    """Return a key of a run: two runs of a video have equal counts if they wrote the same texts at the same frames."""
    return tuple(
        (output.frame_index, output.updates, output.response)
        for output in outputs
        if output.updates or output.response is not None
    )

"""Runs that reuse an earlier run: from its outputs alone, or from point to point of a threshold grid."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from stepscope.engine.config import StreamConfig, Thresholds
from stepscope.engine.control.requests import PassCounts
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import StreamRequest
from stepscope.engine.streamer import Streamer


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """The run at one pair of thresholds, and its cost beyond the run before."""

    thresholds: Thresholds
    outputs: tuple[FrameOutput, ...]
    counts: PassCounts


def run_with_drafts(
    checkpoint: Checkpoint,
    outputs: Sequence[FrameOutput],
    features: Sequence[FrameFeatures],
    *,
    task: Task,
    config: StreamConfig,
) -> Generator[FrameOutput]:
    """Stream with the outputs of a run with other thresholds as drafts, without its trace."""
    prior_run = PriorRun(outputs=tuple(outputs))
    video = StreamRequest(video_id="", features=features, task=task, prior_run=prior_run)
    for event in Streamer(checkpoint, config).run_many([video], max_batch_size=1):
        if event.error is not None:
            raise event.error
        if event.output is not None:
            yield event.output


def sweep(
    checkpoint: Checkpoint,
    features: Sequence[FrameFeatures],
    thresholds: Iterable[Thresholds],
    *,
    task: Task | None = None,
    config: StreamConfig | None = None,
) -> Generator[SweepPoint]:
    """Run a video at many thresholds in ascending order, each from the run before."""
    recording: Recording | None = None
    for point in sorted(set(thresholds), key=lambda point: (point.update, point.speak)):
        if recording is None:
            settings = replace(config or StreamConfig(), speak_threshold=point.speak, update_threshold=point.update)
            recording = Recording(checkpoint, features, task=task, config=settings)
        else:
            recording = recording.at(speak_threshold=point.speak, update_threshold=point.update)
        outputs = tuple(recording.run())
        yield SweepPoint(thresholds=point, outputs=outputs, counts=recording.counts)

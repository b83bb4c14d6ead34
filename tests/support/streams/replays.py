"""Runs that reuse the outputs of an earlier run."""

from collections.abc import Generator, Sequence

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import StreamRequest
from stepscope.engine.streamer import Streamer


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

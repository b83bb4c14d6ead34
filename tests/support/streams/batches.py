"""Batches of random videos, and the streams of each video alone."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

from hypothesis import strategies as st

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.stream import Streamer, StreamRequest
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.streaming.video_runs import run_samples
from stepscope.eval.runs.worker_messages import VideoResult, WorkerConfig
from tests.support.streams.fakes import STEPS, random_frames
from tests.support.streams.streams import SHORT, between

ASKED: Final = (UserTurn(time_s=3.2, text="What is next?"),)


def video(checkpoint: Checkpoint, number: int, num_frames: int) -> StreamRequest:
    task = Task(goal=f"build truck {number}", steps=STEPS, user_turns=ASKED[: number % 2])
    return StreamRequest(
        video_id=str(number), features=list(random_frames(checkpoint, num_frames, seed=number)), task=task
    )


def stream_many(
    streamer: Streamer, videos: list[StreamRequest], *, max_batch_size: int
) -> dict[str, list[FrameOutput]]:
    outputs: dict[str, list[FrameOutput]] = {video.video_id: [] for video in videos}
    for step in streamer.run_many(videos, max_batch_size=max_batch_size):
        assert step.error is None
        if step.output is not None:
            outputs[step.video_id].append(step.output)
    return outputs


def pick_thresholds(checkpoint: Checkpoint, videos: list[StreamRequest], share: float, **limits: Any) -> dict[str, Any]:
    """Pick thresholds that a share of the videos' frames exceed in silence."""
    silent = Streamer(checkpoint, StreamConfig(speak_threshold=1, update_threshold=1, **limits))
    seen = [output for outputs in stream_many(silent, videos, max_batch_size=1).values() for output in outputs]
    return {
        "speak_threshold": between([output.speak_prob for output in seen], share),
        "update_threshold": between([output.update_prob for output in seen], share),
        **limits,
    }


CASES: Final = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.integers(0, 45), min_size=1, max_size=5),
        "max_batch_size": st.integers(1, 4),
        "lookahead": st.integers(1, 64),
        "draft_tokens": st.sampled_from([0, 3, 24]),
        "share": st.sampled_from([0.0, 0.1, 0.4]),
        "max_seq_len": st.sampled_from([190, 260, 900]),
    }
)
"""Videos and settings for which batches must give the outputs of each video alone."""


def stream_both(
    checkpoint: Checkpoint,
    batched: Checkpoint,
    *,
    lengths: list[int],
    max_batch_size: int,
    lookahead: int,
    draft_tokens: int,
    share: float,
    max_seq_len: int,
) -> Iterator[tuple[list[FrameOutput], list[FrameOutput]]]:
    """Yield the outputs of each video of a case: in a batch with ``batched``, and alone frame by frame."""
    videos = [video(checkpoint, number, length) for number, length in enumerate(lengths)]
    limits = pick_thresholds(checkpoint, videos, share, **{**SHORT, "max_seq_len": max_seq_len})
    config = StreamConfig(lookahead=lookahead, draft_tokens=draft_tokens, **limits)
    together = stream_many(Streamer(batched, config), videos, max_batch_size=max_batch_size)
    alone = Streamer(checkpoint, config.frame_by_frame())
    for one in videos:
        yield together[one.video_id], list(alone.run(one.features, one.task))


def run_sample(
    checkpoint: Checkpoint,
    worker_config: WorkerConfig,
    sample: Sample,
    *,
    on_frame: Callable[[int], None] = lambda _: None,
) -> VideoResult:
    """Run one video of a split alone; ``on_frame`` is called after each frame with the number done."""
    with closing(run_samples(checkpoint, worker_config, [sample], device="cpu", batch_size=1)) as events:
        for event in events:
            if isinstance(event, VideoResult):
                return event
            on_frame(event.num_done)
    raise AssertionError("a run ends with a result")

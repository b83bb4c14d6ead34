"""Streams one video: joins the control with a runner. The iterator that everything else consumes."""

import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import replace

from engine.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.control import Steering, Task
from engine.records import FrameOutput
from engine.requests import Answer, Frames, PassCounts
from engine.runner import Runner
from engine.vision import FrameFeatures


class Streamer:
    """Streams videos through a checkpoint's model.

    Args:
        checkpoint: What ``load_model`` returned.
        config: How to stream; its ``max_seq_len`` must fit the model's positions.
    """

    def __init__(self, checkpoint: Checkpoint, config: StreamConfig | None = None) -> None:
        self.checkpoint = checkpoint
        self.config = config or StreamConfig()
        self.counts = PassCounts()
        """What all runs so far have cost, the one under way included."""
        if self.config.max_seq_len > checkpoint.model.max_context:
            raise ValueError(
                f"max_seq_len is {self.config.max_seq_len}, but the model has positions for "
                f"{checkpoint.model.max_context} tokens; lower it"
            )

    def run(self, frames: Iterable[FrameFeatures], task: Task | None = None) -> Generator[FrameOutput]:
        """Stream the frames in order; yield one output per frame as soon as it is decided.

        Closing the generator ends the stream and closes ``frames``.

        Raises:
            ValueError: A task that contradicts itself.
            ContextError: A prompt or user turn that does not fit.
            FeatureError: Frame features of another model.
        """
        checkpoint = self.checkpoint
        source = iter(frames)
        runner = Runner(
            checkpoint.model,
            self.config,
            frames=source,
            never=checkpoint.prompt.never_generated,
            silent_id=checkpoint.silent_id,
        )
        steering = Steering(
            task or Task(),
            config=self.config,
            script=checkpoint.prompt,
            tokens_per_frame=checkpoint.model.tokens_per_frame,
        )
        control, before = steering.run(), self.counts
        spent_ms: defaultdict[int, float] = defaultdict(float)
        first_token_ms: dict[int, float] = {}
        answer: Answer = None
        try:
            while True:
                step = control.send(answer)
                self.counts = before + steering.counts
                if isinstance(step, FrameOutput):
                    answer = None
                    yield replace(
                        step,
                        latency_ms=round(spent_ms.pop(step.frame_index), 3),
                        first_token_ms=first_token_ms.pop(step.frame_index, None),
                    )
                elif isinstance(step, Frames):
                    answer = runner.times(step)
                else:
                    began = time.perf_counter()
                    answer = runner.run(step)
                    elapsed_ms = (time.perf_counter() - began) * 1000
                    for frame in step.frames:  # a pass is shared equally by the frames it serves
                        spent_ms[frame] += elapsed_ms / len(step.frames)
                    if step.pick_at:
                        first_token_ms.setdefault(step.frames[0], round(elapsed_ms, 3))
        except StopIteration:
            return
        finally:
            if isinstance(source, Generator):
                source.close()

"""Plans of streams: a video and how to stream it, as a record that another process can execute.

On ZeroGPU the model runs in another process, which has a GPU for one call. Only pickled values cross its border, so a
plan holds no tensors, decoders or functions.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import TextProgress
from stepscope.engine.control.task import Task
from stepscope.engine.errors import VideoError
from stepscope.engine.inspection import FrameInspection, inspect_frame, trace_frames
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer
from stepscope.engine.video.reader import Frame, OnDamage, read_frames, warn_damaged

FRAMES_PER_PASS = 8
"""Maximum look-ahead frames per forward pass; the result does not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """A video, and how to stream it. Its values can be pickled."""

    clip: Clip
    task: Task
    config: StreamConfig
    num_frames: int | None = None
    """Frames to stream; None for all."""
    max_duration_s: float = math.inf


class RemoteModel(Protocol):
    """A model that runs in another process. It keeps nothing between two calls."""

    def stream(self, plan: StreamPlan, on_damage: OnDamage) -> Generator[FrameOutput]:
        """Execute a plan as ``stream_plan`` does."""

    def inspect(self, plan: StreamPlan, outputs: Sequence[FrameOutput]) -> FrameInspection:
        """Inspect a frame as ``inspect_plan`` does."""


def read_features(
    checkpoint: Checkpoint, plan: StreamPlan, on_damage: OnDamage = warn_damaged
) -> Generator[FrameFeatures]:
    """Yield the encoded frames of a plan, in order; closing the generator ends the decoder.

    Raises ``VideoError`` if an upload is longer than the limit, even if its header declares less.
    """
    with closing(encode(checkpoint, _read_frames(plan, on_damage), batch_size=FRAMES_PER_PASS)) as features:
        yield from islice(features, plan.num_frames)


def stream_plan(
    checkpoint: Checkpoint,
    plan: StreamPlan,
    on_damage: OnDamage = warn_damaged,
    *,
    asked: AskedQuestions | None = None,
    on_text: Callable[[TextProgress], None] | None = None,
) -> Generator[FrameOutput]:
    """Stream the video of a plan, with the questions that are ``asked`` meanwhile.

    ``on_text`` is called after each token of a response. Raises as ``Streamer`` and ``read_features`` do.
    """
    features = read_features(checkpoint, plan, on_damage)
    return Streamer(checkpoint, plan.config).run(
        features if asked is None else asked.attach(features), plan.task, on_text=on_text
    )


def inspect_plan(checkpoint: Checkpoint, plan: StreamPlan, outputs: Sequence[FrameOutput]) -> FrameInspection:
    """Return the inspection of the last frame of a plan, whose run gave ``outputs``.

    Raises ``ValueError`` if the video has fewer frames than the plan.
    """
    features = tuple(read_features(checkpoint, plan))
    if len(features) != plan.num_frames:
        raise ValueError(f"the video has only {format_count(len(features), 'frame')} now; the run has {len(outputs)}")
    trace = trace_frames(checkpoint, features, task=plan.task, config=plan.config, outputs=outputs)
    return inspect_frame(checkpoint, features, trace, frame_index=len(features) - 1, config=plan.config)


def _read_frames(plan: StreamPlan, on_damage: OnDamage) -> Iterator[Frame]:
    clip, limit_s = plan.clip, plan.max_duration_s
    for frame in read_frames(clip.path, fps=plan.config.fps, excerpt=clip.excerpt, on_damage=on_damage):
        if clip.content_digest and frame.time_s > limit_s:
            raise VideoError(f"{clip.path}: is longer than the limit of {format_clock(limit_s)}; cut it")
        yield frame

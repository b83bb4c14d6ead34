from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.replay import Recording
from tests.support.streams.fakes import random_frames
from tests.support.streams.streams import TASK


@pytest.fixture(scope="module")
def context(tiny_folder: Path) -> AppContext:
    stub: Any = None
    return AppContext(
        checkpoint=load_model(tiny_folder, device="cpu"),
        bundled_videos=stub,
        copies=stub,
        encode=stub,
        config=StreamConfig(max_new_tokens=8),
        max_duration_s=60,
    )


@pytest.fixture
def live(context: AppContext) -> LiveRun:
    """Return a window with a finished run of 8 random frames."""
    frames = tuple(random_frames(context.checkpoint, 8))
    recording = Recording(context.checkpoint, frames, task=TASK, config=context.config)
    outputs = tuple(recording.run())
    clip = Clip(name="random", path=Path("random.mp4"), fps=2, num_frames=8, duration_s=4)
    run = Run(clip=clip, task=TASK, config=context.config, model_digest=context.checkpoint.digest, outputs=outputs)
    return LiveRun.finished(run, recording=recording)

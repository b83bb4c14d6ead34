"""Streams of small image-text models of the hub."""

from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Image
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode_images
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.records import FrameOutput, Step
from stepscope.engine.stream import Streamer, StreamRequest

STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof"))
TASK = Task(goal="build the toy truck", steps=STEPS)
NUM_FRAMES = 8


def make_images(number: int = NUM_FRAMES, *, seed: int = 1) -> list[Any]:
    noise = torch.Generator().manual_seed(seed)
    return list(torch.randint(0, 255, (number, 60, 120, 3), generator=noise, dtype=torch.uint8).numpy())


def make_frames(checkpoint: Checkpoint, number: int = NUM_FRAMES, *, seed: int = 1) -> list[FrameFeatures]:
    features = encode_images(checkpoint, make_images(number, seed=seed))
    return [FrameFeatures(index=n, time_s=n / 2, features=one) for n, one in enumerate(features)]


def settings(checkpoint: Checkpoint, *, frame_text: str = "") -> StreamConfig:
    """Return thresholds that many frames exceed."""
    config = StreamConfig(max_new_tokens=6, speak_threshold=1, update_threshold=1, frame_text=frame_text)
    config = checkpoint.fit_config(config)
    silent = list(Streamer(checkpoint, config).run(make_frames(checkpoint), TASK))
    return replace(
        config,
        speak_threshold=median(output.speak_prob for output in silent),
        update_threshold=min(output.update_prob for output in silent) / 2,
    )


def run_traced(checkpoint: Checkpoint, config: StreamConfig) -> tuple[list[FrameOutput], list[int | Image]]:
    """Return the outputs of a stream and its context."""
    request = StreamRequest(video_id="v", features=make_frames(checkpoint), task=TASK, is_traced=True)
    events = list(Streamer(checkpoint, config).run_many([request]))
    assert events[-1].trace is not None, events[-1].error
    context = [item.item.piece for item in events[-1].trace.contexts[-1]]
    return [event.output for event in events if event.output], context


def hub_parts(checkpoint: Checkpoint) -> tuple[HubModel, HubPrompt]:
    assert isinstance(checkpoint.model, HubModel)
    assert isinstance(checkpoint.prompt, HubPrompt)
    return checkpoint.model, checkpoint.prompt


def count_image_tokens(checkpoint: Checkpoint) -> int:
    """Return the tokens of an image without its opening and closing."""
    model, prompt = hub_parts(checkpoint)
    return model.count_tokens(make_frames(checkpoint, 1)[0].features) - len(prompt.opening) - len(prompt.closing)


def spell(checkpoint: Checkpoint, pieces: Iterable[int | Image]) -> list[int]:
    """Return the ids of a context, with a placeholder for each token of an image."""
    _, prompt = hub_parts(checkpoint)
    image = [*prompt.opening, *prompt.suppress_tokens * count_image_tokens(checkpoint), *prompt.closing]
    return [token for piece in pieces for token in (image if isinstance(piece, Image) else [piece])]

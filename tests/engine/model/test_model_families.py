"""Every model family: faster streaming gives the outputs of frame by frame."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from tests.support.streams.batches import stream_many
from tests.support.streams.fakes import random_frames
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online, write_proassist
from tests.support.streams.published_loop import ASKED, NUM_FRAMES, TASK, settings
from tests.support.streams.streams import assert_equal, decided, probs

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's


def load_states(folder: Path) -> Checkpoint:
    return replace(load_model(write_hub(folder, "qwen2_5_vl"), device="cpu"), trained_policy="state-token")


def load_hub(kind: str, folder: Path) -> Checkpoint:
    return load_model(write_hub(folder, kind), device="cpu")


FAMILIES: dict[str, Callable[[Path], Checkpoint]] = {
    "online-10": lambda folder: load_model(write_online(folder, terse=True), device="cpu"),
    "proassist-5": lambda folder: load_model(write_proassist(folder, grid=2, adapters=2, terse=True), device="cpu"),
    "hub-states": load_states,
    "proassist-head": lambda folder: load_model(write_proassist(folder, head="mlp", terse=True), device="cpu"),
    **{kind: partial(load_hub, kind) for kind in ("qwen2_5_vl", "qwen3_vl")},
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            name, marks=[] if name in {"online-10", "proassist-5", "qwen2_5_vl", "hub-states"} else [pytest.mark.slow]
        )
        for name in FAMILIES
    ],
)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return FAMILIES[request.param](tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def config(checkpoint: Checkpoint) -> StreamConfig:
    return settings(checkpoint)


@pytest.fixture(scope="module")
def by_frame(checkpoint: Checkpoint, config: StreamConfig) -> tuple[list[FrameOutput], int]:
    """Return the outputs of frame by frame, and the number of its passes."""
    streamer = Streamer(checkpoint, config.frame_by_frame())
    outputs = list(streamer.run(random_frames(checkpoint, NUM_FRAMES), TASK))
    return outputs, streamer.counts.passes


@pytest.fixture(scope="module")
def expected(by_frame: tuple[list[FrameOutput], int]) -> list[FrameOutput]:
    return by_frame[0]


def test_silence_speech_and_refreshes_are_among_the_cases(expected: list[FrameOutput]) -> None:
    assert 3 < sum(output.response is not None for output in expected) < NUM_FRAMES - 3
    assert any(output.refreshed for output in expected)


def test_look_ahead_and_drafts_give_the_outputs_of_frame_by_frame(
    checkpoint: Checkpoint, config: StreamConfig, by_frame: tuple[list[FrameOutput], int]
) -> None:
    streamer, (expected, num_passes) = Streamer(checkpoint, replace(config, lookahead=3)), by_frame
    assert_equal(list(streamer.run(random_frames(checkpoint, NUM_FRAMES), TASK)), expected)
    assert streamer.counts.passes < num_passes


def test_batches_and_static_steps_give_the_outputs_of_each_video_alone(
    checkpoint: Checkpoint, config: StreamConfig
) -> None:
    videos = [
        StreamRequest(
            video_id=str(number),
            features=list(random_frames(checkpoint, length, seed=number)),
            task=Task(goal="g", user_turns=ASKED[: number % 2]),
        )
        for number, length in enumerate((18, 7))
    ]
    packed = stream_many(Streamer(checkpoint, config), videos, max_batch_size=2)
    backend = CountingBackend()
    static = stream_many(Streamer(with_graphs(checkpoint, backend), config), videos, max_batch_size=2)
    assert backend.captured
    for video in videos:
        alone = list(Streamer(checkpoint, config.frame_by_frame()).run(video.features, video.task))
        assert_equal(packed[video.video_id], alone)
        assert_equal(static[video.video_id], alone)
        assert torch.allclose(probs(static[video.video_id]), probs(alone), rtol=0, atol=1e-5)


def test_a_moved_threshold_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint, config: StreamConfig, expected: list[FrameOutput]
) -> None:
    frames = list(random_frames(checkpoint, NUM_FRAMES))
    recording = Recording(checkpoint, frames, task=TASK, config=config)
    assert_equal(list(recording.run()), expected)
    moved = settings(checkpoint, share=0.9)
    wanted = list(Streamer(checkpoint, moved.frame_by_frame()).run(frames, TASK))
    assert decided(wanted) != decided(expected)
    again = recording.at(speak_threshold=moved.speak_threshold, update_threshold=moved.update_threshold)
    assert_equal(list(again.run()), wanted)

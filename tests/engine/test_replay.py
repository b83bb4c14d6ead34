"""Other thresholds on a finished run: reuse changes the cost and nothing else."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from stepscope.engine.config import StreamConfig, Thresholds
from stepscope.engine.inference.readout import Sampler
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer
from tests.support.streams import published_loop
from tests.support.streams.fakes import random_frames
from tests.support.streams.hub import write_hub
from tests.support.streams.streams import SHORT, TASK, assert_equal, between, decided

NUM_FRAMES = 60


@pytest.fixture(scope="module")
def frames(checkpoint: Checkpoint) -> list[FrameFeatures]:
    return list(random_frames(checkpoint, NUM_FRAMES))


@pytest.fixture(scope="module")
def silent(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> list[FrameOutput]:
    return frame_by_frame(checkpoint, frames, Thresholds(speak=1, update=1))


def point(silent: list[FrameOutput], *, speak: float, update: float) -> Thresholds:
    """Pick thresholds that about these shares of the frames of a silent run exceed, half-way between two of them."""
    return Thresholds(
        speak=between([output.speak_prob for output in silent], speak),
        update=between([output.update_prob for output in silent], update),
    )


def config(thresholds: Thresholds, **settings: Any) -> StreamConfig:
    return StreamConfig(**{**SHORT, **settings}, speak_threshold=thresholds.speak, update_threshold=thresholds.update)


def frame_by_frame(
    checkpoint: Checkpoint, frames: list[FrameFeatures], thresholds: Thresholds, **settings: Any
) -> list[FrameOutput]:
    return list(Streamer(checkpoint, config(thresholds, **settings).frame_by_frame()).run(frames, TASK))


def test_a_cache_is_taken_over_once_and_the_second_run_feeds_it_again(
    checkpoint: Checkpoint, frames: list[FrameFeatures], silent: list[FrameOutput]
) -> None:
    moved = point(silent, speak=0.05, update=0.05)
    first = Recording(checkpoint, frames, task=TASK, config=config(Thresholds(speak=1, update=1)))
    list(first.run())
    wanted = frame_by_frame(checkpoint, frames, moved)
    for _ in range(2):
        again = first.at(speak_threshold=moved.speak, update_threshold=moved.update)
        assert_equal(list(again.run()), wanted)


def test_a_stopped_run_runs_again_up_to_its_last_frame(
    checkpoint: Checkpoint, frames: list[FrameFeatures], silent: list[FrameOutput]
) -> None:
    moved = point(silent, speak=0.1, update=0.1)
    first = Recording(checkpoint, iter(frames), task=TASK, config=config(Thresholds(speak=1, update=1)))
    outputs = first.run()
    for _ in range(40):
        next(outputs)
    outputs.close()
    again = first.at(speak_threshold=moved.speak, update_threshold=moved.update)
    assert_equal(list(again.run()), frame_by_frame(checkpoint, frames[:40], moved))


@pytest.mark.parametrize("are_right", [True, False])
def test_a_run_is_made_again_from_its_outputs_in_fewer_passes(
    checkpoint: Checkpoint, frames: list[FrameFeatures], silent: list[FrameOutput], are_right: bool
) -> None:
    moved = point(silent, speak=0.1, update=0.1)
    wanted = frame_by_frame(checkpoint, frames, moved)
    first = Recording(checkpoint, frames, task=TASK, config=config(moved))
    assert_equal(list(first.run()), wanted)
    again = Recording(checkpoint, frames, task=TASK, config=config(moved), known=wanted if are_right else silent)
    assert_equal(list(again.run()), wanted)
    assert not are_right or again.counts.passes < first.counts.passes


def test_texts_that_depend_on_the_threshold_are_sampled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(write_hub(tmp_path, "qwen2_5_vl"), device="cpu")
    checkpoint = replace(model, trained_policy="reserved-text")
    first = published_loop.settings(checkpoint)
    moved = math.nextafter(first.speak_threshold, 1)

    def suppress(sampler: Sampler, logits: Tensor, _: Tensor) -> Tensor:
        best = logits.argmax(-1, keepdim=True)
        return logits.scatter(-1, best, -math.inf) if sampler._config.speak_threshold == moved else logits

    monkeypatch.setattr(Sampler, "_suppress_silence", suppress)
    frames, task = list(random_frames(checkpoint, published_loop.NUM_FRAMES)), published_loop.TASK
    recording = Recording(checkpoint, frames, task=task, config=first)
    before = list(recording.run())
    wanted = list(Streamer(checkpoint, replace(first, speak_threshold=moved)).run(frames, task))
    assert decided(wanted) != decided(before)
    again = recording.at(speak_threshold=moved, update_threshold=first.update_threshold)
    assert_equal(list(again.run()), wanted)

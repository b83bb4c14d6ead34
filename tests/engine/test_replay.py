"""Other thresholds on a finished run: reuse changes the cost and nothing else."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.engine.config import StreamConfig, Thresholds
from stepscope.engine.control.requests import PassCounts
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.streamer import Streamer
from tests.support.streams.fakes import random_frames
from tests.support.streams.replays import run_with_drafts
from tests.support.streams.streams import SHORT, TASK, assert_equal, between, decided

NUM_FRAMES = 90


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


shares = st.sampled_from([0.0, 0.03, 0.1, 0.3])


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(shares, shares), min_size=2, max_size=4), max_seq_len=st.sampled_from([180, 240, 900]))
@pytest.mark.slow
def test_a_moved_threshold_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint,
    frames: list[FrameFeatures],
    silent: list[FrameOutput],
    moves: list[tuple[float, float]],
    max_seq_len: int,
) -> None:
    points = [point(silent, speak=speak, update=update) for speak, update in moves]
    recording = Recording(checkpoint, iter(frames), task=TASK, config=config(points[0], max_seq_len=max_seq_len))
    list(recording.run())
    for moved in points[1:]:
        wanted = frame_by_frame(checkpoint, frames, moved, max_seq_len=max_seq_len)
        drafted = run_with_drafts(
            checkpoint, recording.outputs, frames, task=TASK, config=config(moved, max_seq_len=max_seq_len)
        )
        recording = recording.at(speak_threshold=moved.speak, update_threshold=moved.update)
        assert_equal(list(recording.run()), wanted)
        assert_equal(list(drafted), wanted)


def test_a_threshold_that_changes_no_decision_costs_no_pass(
    checkpoint: Checkpoint, frames: list[FrameFeatures], silent: list[FrameOutput]
) -> None:
    first = Recording(checkpoint, frames, task=TASK, config=config(Thresholds(speak=0.99999, update=1)))
    list(first.run())
    again = first.at(speak_threshold=1, update_threshold=1)
    assert_equal(list(again.run()), silent)
    assert again.counts == PassCounts()


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


def test_a_recording_runs_only_once(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    recording = Recording(checkpoint, frames[:3])
    list(recording.run())
    with pytest.raises(ValueError, match="runs only once"):
        next(recording.run())


def test_a_sampled_run_is_sampled_again(
    checkpoint: Checkpoint, frames: list[FrameFeatures], silent: list[FrameOutput]
) -> None:
    sampled: dict[str, Any] = {"do_sample": True, "temperature": 2.0}
    first = Recording(checkpoint, frames, task=TASK, config=config(point(silent, speak=0.3, update=0.1), **sampled))
    list(first.run())
    moved = point(silent, speak=0.25, update=0.1)  # some texts are sampled before the runs diverge
    again = first.at(speak_threshold=moved.speak, update_threshold=moved.update)
    assert decided(list(again.run())) == decided(frame_by_frame(checkpoint, frames, moved, **sampled))

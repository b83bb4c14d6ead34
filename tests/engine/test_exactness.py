"""On the bundled checkpoint and videos: many times fewer passes, the same to the last decision."""

from typing import Any

import pytest

from engine.bench.modes import read_videos
from engine.config import StreamConfig
from engine.control.requests import PassCounts
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.records import FrameOutput
from engine.replay import Recording, Thresholds, replay, sweep
from engine.streamer import Streamer, Video
from tests.engine.test_run_many import stream_many
from tests.engine.test_streamer import between, decided, probs
from tests.support.paths import ASSETS

NAMES = ("sandwich", "flower-pot-hard")  # both ask a question; 42 and 56 s
SHORT: dict[str, Any] = {"max_new_tokens": 30, "max_update_tokens": 8, "max_seq_len": 320, "reserved_seq_len": 80}


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_model(ASSETS / "checkpoint", device="cpu")


@pytest.fixture(scope="module")
def videos(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> list[Video]:
    return read_videos(ASSETS / "demo" / "test.json", checkpoint, only=NAMES)


@pytest.fixture(scope="module")
def defined(checkpoint: Checkpoint, videos: list[Video]) -> dict[str, list[FrameOutput]]:
    """Return what the definition gives, with refreshes."""
    return stream_many(Streamer(checkpoint, StreamConfig(**SHORT).frame_by_frame()), videos, rows=1)


def assert_equal(outputs: list[FrameOutput], wanted: list[FrameOutput]) -> None:
    assert decided(outputs) == decided(wanted)
    assert probs(outputs).allclose(probs(wanted), atol=1e-4)


def test_refreshes_user_turns_and_several_updates_are_among_the_cases(
    videos: list[Video], defined: dict[str, list[FrameOutput]]
) -> None:
    outputs = [output for video in videos for output in defined[video.video_id]]
    assert all(video.task.user_turns for video in videos)
    assert any(output.refreshed for output in outputs)
    assert any(len(output.updates) > 1 for output in outputs)


@pytest.mark.parametrize("rows", [1, 2])
def test_guesses_and_batches_give_what_the_definition_gives_in_few_passes(
    checkpoint: Checkpoint, videos: list[Video], defined: dict[str, list[FrameOutput]], rows: int
) -> None:
    streamer = Streamer(checkpoint, StreamConfig(**SHORT))
    outputs = stream_many(streamer, videos, rows=rows)
    for video in videos:
        assert_equal(outputs[video.video_id], defined[video.video_id])
    assert streamer.counts.acceptance_rate > 0.4
    num_frames = sum(len(defined[video.video_id]) for video in videos)  # each a pass of the definition's, texts aside
    assert streamer.counts.passes < 0.75 * num_frames / rows


def test_a_moved_threshold_runs_again_exactly_in_fewer_passes_than_a_fresh_run(
    checkpoint: Checkpoint, videos: list[Video], defined: dict[str, list[FrameOutput]]
) -> None:
    video = videos[1]
    told = defined[video.video_id]
    recording = Recording(checkpoint, video.frames, task=video.task, config=StreamConfig(**SHORT))
    assert_equal(list(recording.run()), told)
    speak = between([output.speak_prob for output in told], 0.3)
    moved = recording.at(speak_threshold=speak, update_threshold=0.5)
    outputs = list(moved.run())
    fresh = Streamer(checkpoint, moved.config.frame_by_frame())
    wanted = list(fresh.run(video.frames, video.task))
    assert moved.counts.passes < fresh.counts.passes / 2
    assert decided(wanted) != decided(told)
    assert_equal(outputs, wanted)
    assert_equal(list(replay(checkpoint, told, list(video.frames), task=video.task, config=moved.config)), wanted)


def test_a_sweep_costs_at_most_a_third_of_its_runs(checkpoint: Checkpoint, videos: list[Video]) -> None:
    video = videos[0]
    points = [Thresholds(speak=0.05 + 0.15 * number, update=0.5) for number in range(7)]
    swept = list(sweep(checkpoint, list(video.frames), points, task=video.task))
    alone = PassCounts()
    for point in swept:
        config = StreamConfig(speak_threshold=point.thresholds.speak, update_threshold=point.thresholds.update)
        streamer = Streamer(checkpoint, config)
        assert decided(list(streamer.run(video.frames, video.task))) == decided(list(point.outputs))
        alone += streamer.counts
    assert sum(point.counts.passes for point in swept) <= alone.passes / 3

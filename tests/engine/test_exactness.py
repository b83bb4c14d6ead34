"""On the bundled checkpoint and videos: many times fewer passes, and exactly the same decisions."""

from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from stepscope.eval.cli.bench import read_videos
from tests.support.paths import ASSETS
from tests.support.streams.batches import stream_many
from tests.support.streams.streams import assert_equal, between, decided

NAMES = ("sandwich", "flower-pot-hard")  # both have a user turn; 42 and 56 s
SHORT: dict[str, Any] = {"max_new_tokens": 30, "max_update_tokens": 8, "max_seq_len": 320, "reserved_seq_len": 80}


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_model(ASSETS / "checkpoint", device="cpu")


@pytest.fixture(scope="module")
def videos(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> list[StreamRequest]:
    return read_videos(ASSETS / "demo" / "test.json", checkpoint, only=NAMES)


@pytest.fixture(scope="module")
def expected(checkpoint: Checkpoint, videos: list[StreamRequest]) -> dict[str, list[FrameOutput]]:
    """Return the outputs of frame-by-frame streaming, with refreshes."""
    return stream_many(Streamer(checkpoint, StreamConfig(**SHORT).frame_by_frame()), videos, max_batch_size=1)


def test_refreshes_user_turns_and_several_updates_are_among_the_cases(
    videos: list[StreamRequest], expected: dict[str, list[FrameOutput]]
) -> None:
    outputs = [output for video in videos for output in expected[video.video_id]]
    assert all(video.task.user_turns for video in videos)
    assert any(output.refreshed for output in outputs)
    assert any(len(output.updates) > 1 for output in outputs)


@pytest.mark.parametrize("max_batch_size", [1, 2])
def test_drafts_and_batches_give_the_outputs_of_frame_by_frame_in_few_passes(
    checkpoint: Checkpoint, videos: list[StreamRequest], expected: dict[str, list[FrameOutput]], max_batch_size: int
) -> None:
    streamer = Streamer(checkpoint, StreamConfig(**SHORT))
    outputs = stream_many(streamer, videos, max_batch_size=max_batch_size)
    for video in videos:
        assert_equal(outputs[video.video_id], expected[video.video_id])
    assert streamer.counts.acceptance_rate > 0.4
    num_frames = sum(
        len(expected[video.video_id]) for video in videos
    )  # each takes a pass frame by frame, without the texts
    assert streamer.counts.passes < 0.75 * num_frames / max_batch_size


def test_a_moved_threshold_runs_again_exactly_in_fewer_passes_than_a_fresh_run(
    checkpoint: Checkpoint, videos: list[StreamRequest], expected: dict[str, list[FrameOutput]]
) -> None:
    video = videos[1]
    first_outputs = expected[video.video_id]
    recording = Recording(checkpoint, video.features, task=video.task, config=StreamConfig(**SHORT))
    assert_equal(list(recording.run()), first_outputs)
    speak = between([output.speak_prob for output in first_outputs], 0.3)
    moved = recording.at(speak_threshold=speak, update_threshold=0.5)
    outputs = list(moved.run())
    fresh = Streamer(checkpoint, moved.config.frame_by_frame())
    wanted = list(fresh.run(video.features, video.task))
    assert moved.counts.passes < fresh.counts.passes / 2
    assert decided(wanted) != decided(first_outputs)
    assert_equal(outputs, wanted)

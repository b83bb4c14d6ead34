"""What is bundled: the videos are what the manifest says, and the checkpoint does on them what the README says."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.checkpoint import Checkpoint, load_model
from engine.config import StreamConfig
from engine.control import Task
from engine.dialogue import parse_steps
from engine.records import FrameOutput
from engine.stream import Streamer
from engine.video import probe, read_frames
from engine.vision import encode
from eval.samples import Sample, read_samples

ASSETS = Path(__file__).parent.parent / "assets"
SAMPLES = {sample.video_id: sample for sample in read_samples(ASSETS / "demo" / "test.json")}


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_model(ASSETS / "checkpoint", device="cpu")


def run(checkpoint: Checkpoint, sample: Sample, config: StreamConfig) -> list[FrameOutput]:
    assert sample.video_path is not None
    task = Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns)
    return list(Streamer(checkpoint, config).run(encode(checkpoint, read_frames(sample.video_path, fps=2)), task))


def updates(sample: Sample) -> list[str]:
    return [turn.text for turn in sample.turns if turn.role == "update"]


def written(outputs: Sequence[FrameOutput]) -> list[str]:
    return [text for output in outputs for text in output.updates]


def test_there_are_at_least_six_videos_and_the_user_speaks_in_some() -> None:
    assert len(SAMPLES) >= 6
    assert sum(bool(sample.user_turns) for sample in SAMPLES.values()) >= 2
    for sample in SAMPLES.values():
        assert {turn.role for turn in sample.turns} >= {"update", "assistant"}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_bundled_video_is_as_long_and_large_as_promised(sample: Sample) -> None:
    assert sample.video_path is not None
    info = probe(sample.video_path)
    assert (info.width, info.height, info.codec, info.is_browser_playable) == (480, 360, "h264", True)
    assert 40 <= info.duration_s <= 60
    assert round(info.duration_s * sample.fps) == sample.num_frames
    ids = {step.id for step in sample.steps}
    assert set(updates(sample)) == {f"{i}->{t}" for i in ids for t in ("start", "complete")}


def test_the_assets_stay_small() -> None:
    sizes = [path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()]
    assert sum(sizes) < 40e6
    assert max(sizes) < 16e6


def test_the_steps_file_of_the_readme_are_the_videos_steps() -> None:
    text = (ASSETS / "demo" / "toy-truck.txt").read_text(encoding="utf-8")
    assert parse_steps(text) == SAMPLES["toy-truck"].steps


def test_an_easy_video_is_followed_without_an_error(checkpoint: Checkpoint) -> None:
    sample = SAMPLES["toy-truck"]
    outputs = run(checkpoint, sample, StreamConfig(lookahead=16))
    assert written(outputs) == updates(sample)
    assert set(outputs[-1].dst_state.values()) == {"completed"}


def test_every_steps_state_outlives_two_refreshes(checkpoint: Checkpoint) -> None:
    sample = SAMPLES["desk-lamp"]
    short = StreamConfig(lookahead=16, max_new_tokens=30, max_update_tokens=8, max_seq_len=320, reserved_seq_len=80)
    outputs = run(checkpoint, sample, short)
    assert sum(output.refreshed for output in outputs) >= 2
    assert written(outputs) == updates(sample)
    assert all(set(output.dst_state) == {step.id for step in sample.steps} for output in outputs)

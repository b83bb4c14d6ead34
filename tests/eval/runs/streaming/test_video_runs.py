"""Several videos in one forward pass: results as alone, and each video keeps its failure for itself."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.streaming import video_runs
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.streaming.video_runs import run_samples
from stepscope.eval.runs.worker_messages import FramesDone, VideoResult, WorkerConfig
from tests.conftest import Uploads
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.streams.batches import run_sample


@pytest.fixture
def samples(demo_manifest: Path, tmp_path: Path) -> list[Sample]:
    return read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 6)))


def run_together(
    checkpoint: Checkpoint, config: WorkerConfig, samples: Iterable[Sample | None], *, batch_size: int = 16
) -> dict[str, VideoResult]:
    events = run_samples(checkpoint, config, samples, device="cpu", batch_size=batch_size)
    return {event.record.video_id: event for event in events if isinstance(event, VideoResult)}


def decisions(result: VideoResult) -> list[tuple[object, ...]]:
    return [
        (output.time_s, output.response, output.updates, dict(output.dst_state), output.cache_tokens, output.refreshed)
        for output in result.outputs
    ]


def assert_as_alone(checkpoint: Checkpoint, config: WorkerConfig, sample: Sample, result: VideoResult) -> None:
    alone = run_sample(checkpoint, config, sample)
    assert decisions(result) == decisions(alone)
    for ours, theirs in zip(result.outputs, alone.outputs, strict=True):
        assert (ours.speak_prob, ours.update_prob) == pytest.approx((theirs.speak_prob, theirs.update_prob), abs=1e-4)
    assert (result.record.error, result.record.live) == (alone.record.error, alone.record.live)
    assert result.record.warning == alone.record.warning


def test_videos_in_one_pass_have_the_results_of_runs_of_their_own(
    checkpoint: Checkpoint, tiny_folder: Path, samples: list[Sample]
) -> None:
    config = make_worker_config(tiny_folder)
    results = run_together(checkpoint, config, samples, batch_size=6)
    assert len(results) == 6
    for sample in samples:
        assert_as_alone(checkpoint, config, sample, results[sample.video_id])


@pytest.mark.parametrize("num_frames", [3, 1000])
def test_the_first_video_has_a_head_start_and_the_results_of_a_run_of_its_own(
    checkpoint: Checkpoint, tiny_folder: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch, num_frames: int
) -> None:
    monkeypatch.setattr(video_runs, "HEAD_START_FRAMES", num_frames)
    config, first = make_worker_config(tiny_folder), samples[0]
    events = list(run_samples(checkpoint, config, samples[:3], device="cpu", batch_size=3))
    ids = [event.video_id if isinstance(event, FramesDone) else event.record.video_id for event in events]
    ahead = next(number for number, video_id in enumerate(ids) if video_id != first.video_id)
    ended = next(number for number, event in enumerate(events) if isinstance(event, VideoResult))
    assert (ids[ended], ahead == ended + 1) == (first.video_id, num_frames == 1000)
    assert ahead >= 3
    result = events[ended]
    assert isinstance(result, VideoResult)
    assert_as_alone(checkpoint, config, first, result)


def test_a_video_that_becomes_available_at_the_end_of_the_head_start_is_run(
    checkpoint: Checkpoint, tiny_folder: Path, samples: list[Sample]
) -> None:
    results: list[str] = []

    def arrive() -> Iterator[Sample | None]:
        yield samples[0]
        while not results:  # as a worker, which waits for a video only if none is in flight
            yield None
        yield samples[1]

    for event in run_samples(checkpoint, make_worker_config(tiny_folder), arrive(), device="cpu", batch_size=4):
        if isinstance(event, VideoResult):
            results.append(event.record.video_id)
    assert results == ["v0", "v1"]


def test_damaged_missing_and_diverging_videos_take_no_neighbour_along(
    checkpoint: Checkpoint,
    tiny_folder: Path,
    samples: list[Sample],
    uploads: Uploads,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, damaged, lost, diverging, unreadable, last = samples
    damaged = replace(damaged, video_path=uploads.damaged)
    lost = replace(lost, video_path=Path("/nowhere/v2.mp4"))
    unreadable = replace(unreadable, video_path=uploads.noise)

    embed = SampleFeatures.embed

    def diverge(features: SampleFeatures, sample: Sample, warnings: list[str]) -> Iterable[FrameFeatures]:
        for frame in embed(features, sample, warnings):
            is_bad = sample is diverging and frame.index == 3
            yield replace(frame, features=frame.features * torch.inf) if is_bad else frame

    monkeypatch.setattr(SampleFeatures, "embed", diverge)
    config = make_worker_config(tiny_folder)
    results = run_together(checkpoint, config, [good, damaged, lost, diverging, unreadable, last])
    errors = {video_id: result.record.error for video_id, result in results.items() if result.record.error}
    assert set(errors) == {"v2", "v3", "v4"}
    assert errors["v2"].startswith("/nowhere/v2.mp4: no such file")
    assert errors["v3"].startswith("frame 3 has features that are not finite")
    assert "is no video that can be opened here" in errors["v4"]
    assert results["v1"].record.warning.startswith(f"{uploads.damaged}: damaged")
    assert all(not results[video_id].outputs for video_id in errors)
    for sample in (good, damaged, last):
        assert_as_alone(checkpoint, config, sample, results[sample.video_id])


def test_the_times_of_videos_in_flight_add_up_to_the_time_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter((0.0, 0.0, 6.0, 6.5, 8.5))
    monkeypatch.setattr(video_runs, "read_clock_s", lambda: next(times_s))
    clock = video_runs.SharedClock()
    began_s = clock.read(2)
    assert clock.read(2) - began_s == 3.0  # the first of two ends after 6 s
    clock.skip()  # half a second that belongs to neither
    assert clock.read(1) - began_s == 5.0  # 6 / 2 + 2: the second runs 2 s longer

"""The estimate of a run: a split that is run in part, and one that ends before the time."""

from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs import estimate
from stepscope.eval.runs.batch import FinishedVideo
from stepscope.eval.runs.estimate import estimate_run
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig, WorkerStatus


def test_a_split_that_ends_before_the_time_is_measured_whole(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path
) -> None:
    split = read_split(six_videos)
    found = estimate_run(split, live_work, devices="cpu:2", seconds=600)
    assert found.num_done == found.num_frames == sum(sample.num_frames for sample in split.samples)
    assert (found.num_finished, found.num_videos, found.num_workers) == (6, 6, 2)
    assert found.wall_s == pytest.approx(found.start_s + found.elapsed_s)
    assert (found.peak_memory_mb or 0) > 50
    of_videos = [*undisturbed.glob("*.jsonl"), *undisturbed.glob("*.record.json")]
    written = sum(path.stat().st_size for path in of_videos)
    assert found.run_bytes == pytest.approx(written, rel=0.1)


def test_a_part_is_extrapolated_to_all_frames(
    six_videos: Path, live_work: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = read_split(six_videos)
    num_frames = sum(sample.num_frames for sample in split.samples)
    video = split.samples[0]

    def progress(num_done: int, elapsed_s: float) -> Progress:
        return Progress(
            num_videos=6,
            num_finished=0,
            num_frames=num_frames,
            num_done=num_done,
            elapsed_s=elapsed_s,
            workers=(WorkerStatus(name="cpu"),),
        )

    def run(*_: object, out: Path, **__: object) -> object:
        out.mkdir()
        (out / "a.jsonl").write_bytes(b"x" * 30 * video.num_frames)
        yield progress(0, 0.0)
        record = VideoRecord(video_id=video.video_id, source="s", num_frames=video.num_frames, peak_memory_mb=300.0)
        yield FinishedVideo(record=record, is_kept=False)
        yield progress(num_frames // 4, 2.0)
        yield progress(num_frames // 2, 5.0)
        raise AssertionError("the run goes on after the time")

    monkeypatch.setattr(estimate, "run_batch", run)
    found = estimate_run(split, live_work, devices="cpu", seconds=5)
    assert found.num_finished == 1
    assert found.frames_per_s == num_frames // 2 / 5
    assert found.wall_s - found.start_s == pytest.approx(10, rel=0.05)  # half of the frames took 5 s
    assert (found.peak_memory_mb, found.run_bytes) == (300.0, 30 * num_frames)

    def fail(*_: object, out: Path, **__: object) -> object:
        out.mkdir()
        yield FinishedVideo(record=VideoRecord(video_id=video.video_id, source="s", error="is gone"), is_kept=False)
        yield progress(video.num_frames + num_others, 5.0)

    monkeypatch.setattr(estimate, "run_batch", fail)
    num_others = 10
    found = estimate_run(split, live_work, devices="cpu", seconds=5)
    assert (found.num_done, found.num_finished, found.run_bytes) == (10, 0, None)
    num_others = 0
    with pytest.raises(ValueError, match="nothing could be measured: is gone"):
        estimate_run(split, live_work, devices="cpu", seconds=5)

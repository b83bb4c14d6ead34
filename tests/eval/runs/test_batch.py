"""Batches over processes: failed videos are listed, the rest is scored, and a kill at any moment loses nothing."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import FinishedVideo, run_batch
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig
from tests.support.data.batches import (
    like_tables,
    run_to_end,
    tables,
    write_scores,
)

NUM_VIDEOS = 6


def running_videos(event: FinishedVideo | Progress) -> dict[str, int]:
    """Return the running videos with their process ids."""
    workers = event.workers if isinstance(event, Progress) else ()
    return {video.video_id: worker.pid for worker in workers if worker.pid for video in worker.videos}


def test_a_batch_writes_every_video_longest_first_and_tells_how_far_it_is(
    six_videos: Path, live_work: WorkerConfig, tmp_path: Path
) -> None:
    events = list(run_batch(read_split(six_videos), live_work, out=tmp_path / "run", devices="cpu:2"))
    done = [event.record.video_id for event in events if isinstance(event, FinishedVideo)]
    progress = [event for event in events if isinstance(event, Progress)]
    assert sorted(done) == [f"v{index}" for index in range(NUM_VIDEOS)]
    begun = [video.video_id for event in progress for worker in event.workers for video in worker.videos]
    assert set(begun[:2]) <= {"v5", "v4"}
    assert {worker.name for event in progress for worker in event.workers} == {"cpu 1", "cpu 2"}
    assert {event.elapsed_s for event in progress if not event.num_done} == {0.0}  # while checkpoints are loaded
    last = progress[-1]
    assert (last.num_finished, last.num_done, last.remaining_s) == (NUM_VIDEOS, last.num_frames, 0)
    assert [event.num_done for event in progress] == sorted(event.num_done for event in progress)


def test_a_worker_that_is_killed_is_replaced_and_the_tables_are_the_same(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    killed: dict[str, int] = {}
    for event in run_batch(read_split(six_videos), live_work, out=tmp_path / "run", devices="cpu:2"):
        for video_id, pid in running_videos(event).items():
            if len(killed) < 2 and video_id not in killed and pid not in killed.values():
                os.kill(pid, signal.SIGKILL)
                killed[video_id] = pid
    write_scores(six_videos, tmp_path / "run")
    assert len(killed) == 2
    assert tables(tmp_path / "run") == like_tables(undisturbed)


def test_closing_a_batch_ends_its_processes_and_keeps_what_is_finished(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    pids = set[int]()
    with closing(run_batch(read_split(six_videos), live_work, out=tmp_path / "run", devices="cpu:2")) as events:
        for event in events:
            if isinstance(event, FinishedVideo):
                break
            pids |= {worker.pid for worker in event.workers if worker.pid}
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert sorted(path.suffix for path in (tmp_path / "run").iterdir()) == [".json", ".json", ".jsonl"]
    done = run_to_end(six_videos, live_work, tmp_path / "run", resume=True)
    assert sum(event.is_kept for event in done) == 1
    assert tables(tmp_path / "run") == like_tables(undisturbed)

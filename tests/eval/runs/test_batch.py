"""Batches over processes: failed videos are listed, the rest is scored, and a kill at any moment loses nothing."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
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
from tests.support.servers.programs import WORKER

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


ASKS_AND_ENDS = """
import os, socket
from multiprocessing import forkserver
from stepscope.eval.runs.pools import local_pool
forkserver.ensure_running()
with socket.socket(socket.AF_UNIX) as client:
    client.connect(forkserver._forkserver._forkserver_address)
os.waitpid(forkserver._forkserver._forkserver_pid, 0)
"""


def test_a_program_that_ends_while_it_asks_for_a_process_leaves_no_traceback() -> None:
    run = subprocess.run([sys.executable, "-c", ASKS_AND_ENDS], capture_output=True, text=True, timeout=60, check=True)
    assert run.stderr == ""


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


@pytest.mark.slow
def test_a_video_whose_worker_dies_twice_has_failed_with_the_reason(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    out, killed = tmp_path / "run", set[int]()
    for event in run_batch(read_split(six_videos), live_work, out=out, devices="cpu:2"):
        for pid in {pid for video_id, pid in running_videos(event).items() if video_id == "v3"} - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    write_scores(six_videos, out)
    assert len(killed) in (2, 3)  # twice alone; before that once, if its neighbours were still running
    errors = {row["video_id"]: row["error"] for row in tables(out)["videos"]}
    assert (
        errors.pop("v3") == "the process that ran it died 2 times: signal 9 (Killed; out of memory, or killed by hand)"
    )
    assert set(errors.values()) == {""}
    done = run_to_end(six_videos, live_work, out, resume=True)
    assert [event.record.video_id for event in done if not event.is_kept] == ["v3"]
    assert tables(out) == like_tables(undisturbed)


def run_in_a_process(six_videos: Path, live_work: WorkerConfig, out: Path) -> None:
    multiprocessing.set_forkserver_preload([WORKER])
    for _ in run_batch(read_split(six_videos), live_work, out=out, devices="cpu:2", resume=True):
        pass


@pytest.mark.slow
def test_a_killed_parent_changes_no_table(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    parent = multiprocessing.get_context("forkserver").Process(
        target=run_in_a_process, args=(six_videos, live_work, out)
    )
    parent.start()
    while not (out / "run.json").exists():
        time.sleep(0.01)
    time.sleep(random.Random(0).uniform(0, 2))
    parent.kill()
    parent.join()
    run_to_end(six_videos, live_work, out, resume=True)
    assert tables(out) == like_tables(undisturbed)
    assert not list(out.glob(".*.part"))


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

"""A split over a real Ray cluster of two nodes on this machine: a node or an actor that dies changes no table."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import FinishedVideo, run_batch
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig
from tests.support.data.batches import like_tables, run_to_end, tables, write_scores
from tests.support.paths import ROOT
from tests.support.streams.fakes import tiny_checkpoint

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default::FutureWarning", "default::DeprecationWarning", "default::ResourceWarning"),
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]
NUM_VIDEOS = 6
SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}


@pytest.fixture(scope="module")
def slow_config(tmp_path_factory: pytest.TempPathFactory) -> WorkerConfig:
    """Return a slow configuration: frame by frame, with a model that never ends a response."""
    folder = tmp_path_factory.mktemp("wordy")
    tiny_checkpoint(folder)
    return WorkerConfig(checkpoint=str(folder), config=StreamConfig(lookahead=1, max_new_tokens=24), live=True)


@pytest.fixture(scope="module")
def undisturbed(six_videos: Path, slow_config: WorkerConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the six videos without a cluster and without interruption."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run_to_end(six_videos, slow_config, out)
    return out


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster of one node with one core; tests add the second."""
    nodes = pytest.importorskip("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=SMALL)
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_ADDRESS", nodes.address)
    yield nodes
    patch.undo()
    nodes.shutdown()


@pytest.fixture
def second_node(cluster: Any) -> Iterator[Any]:
    node = cluster.add_node(**SMALL)
    cluster.wait_for_nodes()
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node)


def assert_alike(out: Path, undisturbed: Path) -> None:
    """Assert that two runs have equal tables, apart from the number of cores and the last digits of probabilities."""
    found, wanted = tables(out), like_tables(undisturbed)
    assert set(found["metrics"].pop("devices")) == {"cpu"}
    del wanted["metrics"]["devices"]
    assert found == wanted


def running_videos(event: FinishedVideo | Progress) -> set[str]:
    """Return the running videos of which some frames are done."""
    workers = event.workers if isinstance(event, Progress) else ()
    return {video.video_id for worker in workers for video in worker.videos if video.num_done}


def actor_pids() -> list[int]:
    """Return the process ids of the actors on this machine."""
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and b"ray::WorkerActor" in (folder / "cmdline").read_bytes():
                pids.append(int(folder.name))
        except OSError:
            continue  # it has just ended
    return pids


def has_ended() -> bool:
    """Wait until no actor is left; return whether that took less than 10 s."""
    until = time.monotonic() + 10
    while actor_pids() and time.monotonic() < until:
        time.sleep(0.1)
    return not actor_pids()


def test_a_node_that_is_lost_in_the_middle_changes_no_table(
    cluster: Any, second_node: Any, six_videos: Path, slow_config: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    events, is_lost, begun, names = [], False, list[str](), set[str]()
    for event in run_batch(read_split(six_videos), slow_config, out=tmp_path / "run", devices="ray"):
        events.append(event)
        if isinstance(event, Progress):
            begun += [video.video_id for worker in event.workers for video in worker.videos]
            names |= {worker.name.partition(" (")[0] for worker in event.workers}
        if not is_lost and len(running_videos(event)) == 2:
            cluster.remove_node(second_node, allow_graceful=False)
            is_lost = True
    assert is_lost
    first_begun = list(dict.fromkeys(begun))  # a worker runs several videos at once, the longest first
    assert first_begun[0] == "v5"
    assert first_begun[-1] in {"v0", "v1"}
    assert names == {"ray 1", "ray 2"}
    last = events[-1]
    assert isinstance(last, Progress)
    assert (last.num_finished, last.num_done, last.workers) == (NUM_VIDEOS, last.num_frames, ())
    write_scores(six_videos, tmp_path / "run")
    assert_alike(tmp_path / "run", undisturbed)
    assert not ray.is_initialized()


def test_a_video_whose_actor_dies_twice_has_failed_with_the_reason(
    cluster: Any, six_videos: Path, slow_config: WorkerConfig, undisturbed: Path, tmp_path: Path
) -> None:
    out, killed = tmp_path / "run", set[int]()
    for event in run_batch(read_split(six_videos), slow_config, out=out, devices="ray"):
        if "v5" in running_videos(event):
            for pid in set(actor_pids()) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    write_scores(six_videos, out)
    errors = {row["video_id"]: row["error"] for row in tables(out)["videos"]}
    error = errors.pop("v5")
    assert error.startswith(
        "the Ray actor that ran it died 2 times: The actor is dead because its worker process has died."
    )
    assert "\n" not in error
    assert len(killed) == 3, "the first death, with other videos beside it, does not count"
    assert set(errors.values()) == {""}
    done = run_to_end(six_videos, slow_config, out, devices="ray", resume=True)
    assert [event.record.video_id for event in done if not event.is_kept] == ["v5"]
    assert_alike(out, undisturbed)


def test_sigterm_ends_the_command_with_its_exit_code_and_frees_the_cluster(
    cluster: Any, six_videos: Path, slow_config: WorkerConfig, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "stepscope.eval", "run", str(six_videos), "--out", str(out), "--devices", "ray"]
    process = subprocess.Popen(
        [*command, "--checkpoint", slow_config.checkpoint], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not list(out.glob("*.record.json")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert b"--resume runs the rest" in said
    assert has_ended()

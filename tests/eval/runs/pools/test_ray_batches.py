"""Several videos per actor: the back end of a cluster with its own actors, which run in threads instead of on nodes."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import run_batch
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig
from tests.support.data.batches import like_tables, tables, write_scores


class ThreadedActor:
    """A handle of an actor: each call is a future, at most two at once."""

    def __init__(self, actor: Any) -> None:
        self._actor, self._threads = actor, ThreadPoolExecutor(2)

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *values: self._threads.submit(getattr(self._actor, name), *values))

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


class ThreadedRay:
    """The functions of Ray that the back end calls, for a cluster of cores in this process."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, *, num_cpus: int) -> None:
        self._resources = {"CPU": num_cpus}

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, int]:
        return self._resources

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Resources": self._resources}]

    def remote(self, kind: Callable[..., Any]) -> Any:
        make = SimpleNamespace(remote=lambda *values: ThreadedActor(kind(*values)))
        return SimpleNamespace(options=lambda **_: make)

    def wait(self, calls: Sequence[Future[Any]], *, timeout: float) -> tuple[list[Future[Any]], list[Future[Any]]]:
        done, waiting = wait(calls, timeout=timeout, return_when=FIRST_COMPLETED)
        return list(done), list(waiting)

    def get(self, call: Future[Any]) -> Any:
        return call.result()

    def kill(self, actor: ThreadedActor) -> None:
        actor.stop()


def test_actors_with_several_videos_in_a_pass_give_the_same_tables(
    six_videos: Path, live_work: WorkerConfig, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ThreadedRay(num_cpus=2))
    together = 0
    for event in run_batch(
        read_split(six_videos), replace(live_work, batch_size=3), out=tmp_path / "run", devices="ray"
    ):
        if isinstance(event, Progress):
            together = max([together, *(len(worker.videos) for worker in event.workers)])
    write_scores(six_videos, tmp_path / "run")
    found, wanted = tables(tmp_path / "run"), like_tables(undisturbed)
    assert together == 3
    assert found["metrics"].pop("devices") == ["cpu", "cpu"]
    del wanted["metrics"]["devices"]
    assert found == wanted

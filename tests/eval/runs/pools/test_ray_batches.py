"""Several videos per actor: the back end of a cluster with its own actors, which run in threads instead of on nodes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import run_batch
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig
from tests.support.data.batches import like_tables, tables, write_scores
from tests.support.streams.threaded_ray import ThreadedRay


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

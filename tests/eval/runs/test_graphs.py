"""A run folder says whether CUDA graphs were checked, or why they were off."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.inference.cuda_graphs import CudaGraphPool
from stepscope.engine.loading import load_model
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs import batch
from stepscope.eval.runs.batch import run_batch
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.streaming.video_runs import run_samples
from stepscope.eval.runs.traces import read_provenance
from stepscope.eval.runs.worker_messages import VideoResult
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.streams.graphs import with_graphs


@pytest.mark.parametrize(
    ("fault", "wanted"), [("", "checked"), ("a replay differs", "off: a replay differs")], ids=["checked", "off"]
)
def test_the_provenance_of_a_run_says_whether_graphs_were_checked(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, wanted: str
) -> None:
    monkeypatch.setattr(CudaGraphPool, "fault", fault)
    graphed, config = with_graphs(load_model(tiny_folder, device="cpu")), make_worker_config(tiny_folder)

    def run_here(samples: list[Sample], _: object) -> Iterator[VideoResult]:
        for event in run_samples(graphed, config, samples, device="cpu", batch_size=1):
            if isinstance(event, VideoResult):
                yield event

    monkeypatch.setattr(batch, "run_scheduler", run_here)
    split, out = read_split(write_split(tmp_path, *copies(demo_manifest, tmp_path, 2))), tmp_path / "run"
    list(run_batch(replace(split, entries=split.entries[:1]), config, out=out, devices="cpu:1"))
    assert json.loads((out / "run.json").read_text(encoding="utf-8"))["graphs"] == wanted
    list(run_batch(split, config, out=out, devices="cpu:1", resume=True))
    provenance = read_provenance(RunFolder(out))
    assert provenance.graphs == wanted
    assert ("graphs", wanted) in provenance.rows()

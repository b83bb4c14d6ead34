"""A run and a sweep of two short videos, made once for all tests of sweeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.grid import Grid
from tests.support.data.batches import copies, make_worker_config, sweep, write_split
from tests.support.streams.batches import run_sample
from tests.support.streams.streams import between


@pytest.fixture(scope="session")
def split(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    return write_split(folder, *copies(demo_manifest, folder, 2))


@pytest.fixture(scope="session")
def work(tiny_folder: Path) -> WorkerConfig:
    """Return work with texts of a few tokens: a random model never ends one."""
    work = make_worker_config(tiny_folder)
    return replace(work, config=replace(work.config, max_new_tokens=4, max_update_tokens=4, max_updates_per_frame=2))


@pytest.fixture(scope="session")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


@pytest.fixture(scope="session")
def run(split: Path, work: WorkerConfig, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run at thresholds of 0.5."""
    out = tmp_path_factory.mktemp("run") / "run"
    with RunFolder.open(out, {"config": {"speak_threshold": 0.5, "update_threshold": 0.5}}) as folder:
        for sample in read_split(split).samples:
            result = run_sample(checkpoint, work, sample)
            folder.save_video(result.record, result.outputs)
    return out


@pytest.fixture(scope="session")
def grid(split: Path, run: Path) -> Grid:
    """Return thresholds that some, but not all, probabilities of the run exceed."""
    outputs = [output for sample in read_split(split).samples for output in RunFolder(run).outputs(sample)]
    speak, update = ([getattr(output, name) for output in outputs] for name in ("speak_prob", "update_prob"))
    return Grid(
        speak=(
            between(speak, 0.4),
            between(speak, 0.1),
            1.0,
        ),  # at 1 there is no response: runs differ in updates alone
        update=tuple(between(update, share) for share in (0.3, 0.1)),
    )


@pytest.fixture(scope="session")
def swept(split: Path, work: WorkerConfig, grid: Grid, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "sweep"
    sweep(split, work, grid, out)
    return out

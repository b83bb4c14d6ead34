"""The workers of the option ``--chat-devices``."""

from pathlib import Path

import pytest

from stepscope.app.tabs.chat.workers import open_workers
from stepscope.engine.chat.worker import WorkerOptions
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


OPTIONS = WorkerOptions(checkpoint="nowhere", budget_bytes=5, host_budget_bytes=7)
"""Options with which no worker can load a model, so that a shared one is used or the test fails."""


@pytest.mark.parametrize(("devices", "num_workers"), [("", 1), ("cpu", 1), ("cpu:3", 3)])
def test_workers_on_the_device_of_the_page_share_its_weights(
    checkpoint: Checkpoint, devices: str, num_workers: int
) -> None:
    with open_workers(devices, checkpoint, OPTIONS) as workers:
        assert len(workers) == num_workers
        assert len({id(worker.store) for worker in workers}) == num_workers
        assert len({worker.name for worker in workers}) == num_workers


def test_a_device_that_does_not_exist_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="cpu:0 must give"), open_workers("cpu:0", checkpoint, OPTIONS):
        pass

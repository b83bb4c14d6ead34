"""Three short videos on the batch tab, not run yet (``batches``) or run twice (``finished``)."""

from pathlib import Path

import pytest

from stepscope.app.core.batch_context import BatchContext
from tests.support.data.batches import copies, write_split
from tests.support.pages.batch_tab import make_batches, start, wait_for


@pytest.fixture
def batches(demo_manifest: Path, tiny_folder: Path, tmp_path: Path) -> BatchContext:
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 3))
    return make_batches(split, checkpoint=tiny_folder, runs=tmp_path / "runs")


@pytest.fixture(scope="package")
def finished(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> BatchContext:
    """Run three videos as ``a``, and once more as ``silent``; tests may look at them, and run others."""
    folder = tmp_path_factory.mktemp("finished")
    split = write_split(folder, *copies(demo_manifest, folder, 3))
    batches = make_batches(split, checkpoint=tiny_folder, runs=folder / "runs")
    for name, speak in (("a", 0.0), ("silent", 1.0)):
        start(batches, name=name, speak=speak)
        wait_for(batches, name, "done")
    return batches

import shutil
from pathlib import Path

import pytest

from tests.support.streams.fakes import tiny_checkpoint


@pytest.fixture(scope="package")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    tiny_checkpoint(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "checkpoint"))

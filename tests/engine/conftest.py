import pytest

from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.streams.fakes import tiny_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"))

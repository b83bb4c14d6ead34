from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from stepscope.engine.chat.pool import WorkerPool
from stepscope.engine.chat.worker import ChatWorker
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.chat_socket import make_app


@pytest.fixture
def pool(checkpoint: Checkpoint) -> WorkerPool[ChatWorker]:
    return WorkerPool([ChatWorker(checkpoint)], max_queued=1)


@pytest.fixture
def client(pool: WorkerPool[ChatWorker]) -> Iterator[TestClient]:
    with TestClient(make_app(pool)) as client:
        yield client

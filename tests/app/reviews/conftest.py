"""A small reviewed split on the reviews tab."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.review_store.store import open_store
from stepscope.app.server.identity import current_user
from stepscope.app.window.context import AppContext, ReviewContext
from tests.support.pages.batch_tab import make_batches
from tests.support.pages.benches import make_context
from tests.support.reviews.desks import ReviewedSplit, write_reviewed


@pytest.fixture
def reviewed(demo_manifest: Path, tmp_path: Path) -> ReviewedSplit:
    return write_reviewed(demo_manifest, tmp_path)


@pytest.fixture
def batches(reviewed: ReviewedSplit, tiny_folder: Path) -> BatchContext:
    return make_batches(reviewed.split, checkpoint=tiny_folder, runs=reviewed.runs)


@pytest.fixture
def reviews(reviewed: ReviewedSplit, batches: BatchContext) -> Iterator[ReviewContext]:
    with open_store(reviewed.store, name_user=current_user.get) as store:
        yield ReviewContext(store=store, splits=batches.splits)


@pytest.fixture
def context(reviewed: ReviewedSplit, tiny_folder: Path, tmp_path: Path) -> AppContext:
    return make_context(tiny_folder, reviewed.split, tmp_path)

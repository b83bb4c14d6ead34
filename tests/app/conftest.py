"""The page of two drawn videos, and a player that reviewers use, whose ``folder`` a module of browser tests writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from stepscope.app.review_store.store import ReviewStore, open_store
from stepscope.app.window.context import AppContext
from tests.support.pages.benches import make_context
from tests.support.pages.browser import forget, serve, serve_page
from tests.support.reviews.databases import serve_postgres
from tests.support.reviews.reviewing import show_player, watched


@pytest.fixture(scope="module")
def context(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    return make_context(tiny_folder, demo_manifest, tmp_path_factory.mktemp("copies"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with serve_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def tiny_page(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the page with the tiny checkpoint, for all tests of a worker that start no batch and keep no review."""
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=tmp_path_factory.mktemp("runs")) as url:
        yield url


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serve_page("player_page", str(folder)) as address:
        yield address


@pytest.fixture
def page(window: Page, address: str) -> Iterator[Page]:
    forget(window, address)
    with watched(window):
        show_player(window, address)
        yield window


@pytest.fixture
def store(folder: Path) -> Iterator[ReviewStore]:
    with open_store(folder / "reviews" / "reviews.sqlite") as opened:
        yield opened

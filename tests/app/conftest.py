"""A player that reviewers use; a module of browser tests writes its ``folder``, or has its own ``address``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from app.reviews.store import ReviewStore, open_store
from tests.support.pages.browser import serve_player
from tests.support.reviews.reviewing import watched_player


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serve_player(folder) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with watched_player(browser, address) as page:
        yield page


@pytest.fixture
def store(folder: Path) -> Iterator[ReviewStore]:
    with open_store(folder / "reviews" / "reviews.sqlite") as opened:
        yield opened

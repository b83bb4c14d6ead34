"""The player with data of two videos."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import serve_player
from tests.support.pages.two_videos import watched_page, write_players


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    write_players(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serve_player(folder) as url:
        yield url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with watched_page(browser, address) as page:
        yield page

"""The player with data of two videos."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages.browser import serve_page
from tests.support.pages.two_videos import write_players


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    write_players(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serve_page("player_page", str(folder)) as url:
        yield url

"""The player with data of two videos."""

from pathlib import Path

import pytest

from tests.support.pages.two_videos import write_players


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    write_players(folder)
    return folder

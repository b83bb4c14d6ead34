"""A picture of the chat is read from a regular file only."""

import os
from pathlib import Path

import pytest

from stepscope.app.tabs.chat.conversation.prompts import _read_file


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_place_of_a_picture_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "picture.png")
    with pytest.raises(ValueError, match="an attached picture"):
        _read_file(str(tmp_path / "picture.png"))

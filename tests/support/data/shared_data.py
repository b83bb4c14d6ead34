"""Golden figures and real dialogues, which lie outside of the repository."""

from pathlib import Path

import pytest

from tests.support.paths import SHARED


def shared(name: str) -> Path:
    """Return a file of ``SHARED``; skips the test without it."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there; set STEPSCOPE_SHARED to the folder that holds it")
    return path

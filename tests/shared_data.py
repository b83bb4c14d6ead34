"""Where the golden figures and real dialogues lie, outside the project."""

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """Return a file of the folder beside the repository, or of ``STEPSCOPE_SHARED``; skips the test without it."""
    path = Path(os.environ.get("STEPSCOPE_SHARED", Path(__file__).parents[2] / "shared")) / name
    if not path.exists():
        pytest.skip(f"{path} is not there; set STEPSCOPE_SHARED to the folder that holds it")
    return path

"""A disk that is soon full."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount 64 KiB; skips where that is not allowed."""
    (tmp_path / "disk").mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path / "disk")], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield tmp_path / "disk"
    # FFmpeg keeps a file open that it could not finish: a plain umount finds the disk busy
    subprocess.run(["umount", "--lazy", str(tmp_path / "disk")], check=True)

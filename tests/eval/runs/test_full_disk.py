"""A full disk: one error message, no partial file, and the run is resumed once space is free."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data.batches import copies, write_split

ROOM = "64k"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 kB; only root may."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here: that takes root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_sentence_and_no_half_file(
    small_disk: Path, demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 3))
    (small_disk / "ballast").write_bytes(bytes(52 * 1024))
    out = small_disk / "run"
    command = [
        sys.executable,
        "-m",
        "stepscope.eval",
        "run",
        str(split),
        "--checkpoint",
        str(tiny_folder),
        "--out",
        str(out),
    ]
    ended = subprocess.run([*command, "--devices", "cpu:1"], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert (
        [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
        == [line for line in ended.stderr.splitlines() if "No space left on device" in line]
        != []
    )
    for path in out.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not path.name.endswith(".part")
        assert text.endswith(("\n", "}"))
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    resumed = subprocess.run([*command, "--devices", "cpu:1", "--resume"], capture_output=True, text=True, timeout=120)
    assert resumed.returncode == 0, resumed.stderr
    assert sorted(path.name for path in out.glob("*.record.json")) == [f"v{index}.record.json" for index in range(3)]

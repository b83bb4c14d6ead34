"""A test that CI skips without being expected to fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ci_skips import unexpected_skips


def test_only_reasons_that_are_listed_are_expected() -> None:
    known, other = "Skipped: the extra 'ray' is not installed", "Skipped: no Chromium: apt-get update"
    assert unexpected_skips([known, other, known]) == ["no Chromium: apt-get update"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_ci", "reason", "code"), [(True, "new", 1), (True, "no decord here", 0), (False, "new", 0)]
)
def test_an_unexpected_skip_fails_the_run_in_ci_alone(tmp_path: Path, in_ci: bool, reason: str, code: int) -> None:
    (tmp_path / "test_a.py").write_text(f"import pytest\n\n\ndef test_a():\n    pytest.skip({reason!r})\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.support.ci_skips",
        str(tmp_path),
        "--rootdir",
        str(tmp_path),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "STEPSCOPE_CI"}
    environment |= {"STEPSCOPE_CI": "1"} if in_ci else {}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stdout
    assert ("1 tests skipped" in done.stdout) == in_ci

"""What CI makes of skipped tests and of those that pass at a second attempt."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ci_report import MAX_REPEATED, unexpected_skips


def test_only_reasons_that_are_listed_are_expected() -> None:
    known, other = "Skipped: the extra 'ray' is not installed", "Skipped: no Chromium: apt-get update"
    assert unexpected_skips([known, other, known]) == ["no Chromium: apt-get update"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_ci", "reason", "code"), [(True, "new", 1), (True, "no decord here", 0), (False, "new", 0)]
)
def test_an_unexpected_skip_fails_the_run_in_ci_alone(tmp_path: Path, in_ci: bool, reason: str, code: int) -> None:
    (tmp_path / "test_a.py").write_text(f"import pytest\n\n\ndef test_a():\n    pytest.skip({reason!r})\n")
    done = run_pytest(tmp_path, in_ci=in_ci)
    assert done.returncode == code, done.stdout
    assert ("1 tests skipped" in done.stdout) == in_ci


@pytest.mark.slow
@pytest.mark.parametrize(("num_flaky", "code"), [(MAX_REPEATED, 0), (MAX_REPEATED + 1, 1)])
def test_a_few_tests_may_pass_at_the_second_attempt_and_are_named(tmp_path: Path, num_flaky: int, code: int) -> None:
    tests = [
        f"def test_{n}():\n    if not Path('{n}').exists():\n        Path('{n}').touch()\n        assert {n} < 0\n"
        for n in range(num_flaky)
    ]
    (tmp_path / "test_a.py").write_text("\n\n".join(["from pathlib import Path", *tests]))
    done = run_pytest(tmp_path, "--reruns", "1", in_ci=True)
    assert done.returncode == code, done.stdout
    assert f"{num_flaky} tests failed once" in done.stdout
    assert "assert 3 < 0" in done.stdout


def run_pytest(folder: Path, *options: str, in_ci: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.ci_report", str(folder), *options]
    environment = {name: value for name, value in os.environ.items() if name not in ("STEPSCOPE_CI", "PYTEST_ADDOPTS")}
    environment |= {"STEPSCOPE_CI": "1"} if in_ci else {}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    command += ["--rootdir", str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)

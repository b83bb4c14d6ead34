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
    ("in_ci", "reason", "num_flaky", "code"),
    [
        (True, "new", 0, 1),
        (False, "new", 0, 0),
        (True, "no decord here", MAX_REPEATED, 0),
        (True, "no decord here", MAX_REPEATED + 1, 1),
    ],
)
def test_an_unexpected_skip_or_many_repeated_tests_fail_the_run_in_ci_alone(
    tmp_path: Path, in_ci: bool, reason: str, num_flaky: int, code: int
) -> None:
    tests = [f"import pytest\nfrom pathlib import Path\n\n\ndef test_a():\n    pytest.skip({reason!r})\n"]
    for n in range(num_flaky):
        first = f"if not Path('{n}').exists():\n        Path('{n}').touch()\n        assert {n} < 0\n"
        tests.append(f"def test_{n}():\n    {first}")
    (tmp_path / "test_a.py").write_text("\n\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.ci_report", "--reruns", "1"]
    environment = {name: value for name, value in os.environ.items() if name not in ("STEPSCOPE_CI", "PYTEST_ADDOPTS")}
    environment |= {"STEPSCOPE_CI": "1"} if in_ci else {}
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    command += ["--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stdout
    assert ("1 tests skipped" in done.stdout) == in_ci
    assert (f"{num_flaky} tests failed once" in done.stdout) == in_ci
    assert ("assert 3 < 0" in done.stdout) == (num_flaky > 3)

"""The tests with the marker ``gpu``."""

import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Final

from benchmarks.gpu.settings import ROOT, Figure, Figures, Settings, SkippedError

_NEEDED: Final = ("pytest", "hypothesis", "playwright", "av", "cv2", "filelock", "pydantic")
"""Packages of ``tests/conftest.py``."""
_FILES: Final = ("tests/engine/inference/test_cuda_graphs.py", "tests/engine/video/test_hardware.py")
_RUN: Final = "import sys, benchmarks.gpu, pytest; sys.exit(pytest.main(sys.argv[1:]))"
_FAILED: Final = 1
"""pytest's exit code for failed tests; others are errors of the run itself."""


def run(settings: Settings) -> Figures:
    """Run the tests, and yield the number of each outcome; the output is in ``gpu-tests.log``."""
    settings.need_gpu()
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise SkippedError(f"needs the packages {', '.join(missing)}")
    command = [sys.executable, "-c", _RUN, "-q", "-m", "gpu", "-p", "no:cacheprovider", *_FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    log = settings.out / "gpu-tests.log"
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()]
    for number, outcome in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last[0]):
        yield Figure(name=f"tests {outcome}", value=float(number))
    if done.returncode:
        what = "tests failed" if done.returncode == _FAILED else f"pytest ended with {done.returncode}"
        raise RuntimeError(f"{what}; {log} has the output")

"""The benchmark of a GPU runs from a bare checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

BARE = """
import runpy, sys
# a bare environment has none of these, and an installed stepscope is hidden
for name in ("av", "cv2", "decord", "tyro", "pytest", "peft", "accelerate", "scipy", "pandas", "gradio"):
    sys.modules[name] = None
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
sys.path[:] = [sys.argv.pop(1), *(path for path in sys.path if ".links" not in path)]
from benchmarks.gpu import parts
names = "machine", "gpu tests", "kernels of Triton", "SmolVLM2-2.2B", "4 hours of a stream", "NVDEC"
parts.PARTS = [part for part in parts.PARTS if part.name in names]
runpy.run_module("benchmarks.gpu", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_it_runs_on_a_cpu_from_a_bare_checkout(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    options = ("--device", "cpu", "--tiny", "--minutes", "60", "--out", "results")
    command = [sys.executable, "-c", BARE, str(ROOT), *options]
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results" / "gpu.json").read_text(encoding="utf-8"))
    states = {part["name"]: part["state"] for part in results["parts"]}
    skipped = dict.fromkeys(("gpu tests", "kernels of Triton", "NVDEC"), "skipped")
    assert states == dict.fromkeys(("machine", "SmolVLM2-2.2B", "4 hours of a stream"), "done") | skipped
    figures = {part["name"]: [figure["name"] for figure in part["figures"]] for part in results["parts"]}
    assert figures["SmolVLM2-2.2B"] == [
        "12 frames alone",
        "live, 95 % of the passes within",
        "frame to first token",
        "decision to first token",
        "4 videos of 12 frames at once",
    ]
    table = (tmp_path / "results" / "gpu.md").read_text(encoding="utf-8")
    assert "| SmolVLM2-2.2B | done |" in table

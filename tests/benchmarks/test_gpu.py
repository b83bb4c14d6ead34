"""The benchmark of a GPU runs from a bare checkout, and continues after a part that fails, hangs or dies."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.gpu import speed
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.parts import PARTS, Part, choose_start, run_part
from benchmarks.gpu.settings import Figure, Figures, Settings, SkippedError
from stepscope.engine.inference.cuda_graphs import CudaGraphPool
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.paths import ROOT
from tests.support.streams.graphs import with_graphs

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
BARE = """
import runpy, sys
# a bare environment has none of these, and an installed stepscope is hidden
for name in ("av", "cv2", "decord", "tyro", "pytest", "peft", "accelerate", "scipy", "pandas", "gradio"):
    sys.modules[name] = None
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
sys.path[:] = [sys.argv.pop(1), *(path for path in sys.path if ".links" not in path)]
runpy.run_module("benchmarks.gpu", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(device="cpu", is_tiny=True, out=tmp_path)


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
    assert list(states) == [part.name for part in PARTS]
    skipped = {"gpu tests", "NVDEC"}
    assert states == {name: "skipped" if name in skipped else "done" for name in states}
    figures = {part["name"]: [figure["name"] for figure in part["figures"]] for part in results["parts"]}
    assert figures["SmolVLM2-2.2B"] == [
        "12 frames alone",
        "live, 95 % of the passes within",
        "frame to first token",
        "decision to first token",
        "4 videos of 12 frames at once",
    ]
    assert len(figures["exactness"]) == 4 * 2 * 5  # families, dtypes, modes
    assert figures["questions of Qwen2.5-VL-3B"][0] == "frame with 4 questions of 8 tokens over a frame without"
    assert figures["training of SmolVLM2-500M"][0].startswith("step of 4 contexts")
    table = (tmp_path / "results" / "gpu.md").read_text(encoding="utf-8")
    assert "| Qwen2.5-VL-3B | done |" in table


def test_a_device_that_is_absent_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", "--device", "cuda:99", "--out", str(tmp_path)])
    assert main() == 1
    (part,) = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["parts"]
    assert (part["name"], part["state"]) == ("machine", "failed")


def fail(_: Settings) -> Figures:
    yield Figure(name="first", value=1.0)
    raise RuntimeError("CUDA out of memory")


def die(_: Settings) -> Figures:
    yield Figure(name="first", value=1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def hang(settings: Settings) -> Figures:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (settings.out / "child").write_text(str(child.pid), encoding="utf-8")
    yield Figure(name="first", value=1.0)
    time.sleep(600)


def skip(_: Settings) -> Figures:
    yield Figure(name="first", value=1.0)
    raise SkippedError("needs a GPU")


@pytest.mark.parametrize(
    ("run", "limit_s", "state", "reason"),
    [
        (fail, 60.0, "failed", "RuntimeError: CUDA out of memory"),
        (die, 60.0, "failed", "its process ended with -9"),
        (hang, 3.0, "stopped", "after 3 s, its share of the time"),
        (skip, 60.0, "skipped", "needs a GPU"),
    ],
)
def test_a_part_that_does_not_end_well_is_named_and_keeps_its_figures(
    settings: Settings, run: Callable[[Settings], Figures], limit_s: float, state: str, reason: str
) -> None:
    result = run_part(Part(name="part", weight=1, run=run), settings, limit_s=limit_s)
    assert (result.state, result.reason) == (state, reason)
    assert [figure.name for figure in result.figures] == ["first"]
    if run is hang:
        child = int((settings.out / "child").read_text(encoding="utf-8"))
        stat = Path(f"/proc/{child}/stat")
        assert not stat.exists() or stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def test_parts_are_spawned_if_an_import_has_touched_cuda(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_start() == "fork"
    monkeypatch.setattr("torch.cuda._is_in_bad_fork", lambda: True)
    assert choose_start() == "spawn"
    result = run_part(PARTS[0], settings, limit_s=120, start="spawn")
    assert (result.state, result.reason) == ("done", "")
    assert result.figures[0].name == "card"


def test_a_shape_is_timed_with_graphs_and_without(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaGraphPool, "fault", "")
    plain = Settings.load

    def load(self: Settings, shape: str, *, dtype: str = "auto") -> Checkpoint:
        return with_graphs(plain(self, shape, dtype=dtype))

    monkeypatch.setattr(Settings, "load", load)
    figures = list(speed.run(settings, shape="SmolVLM2-2.2B", num_videos=2))
    names = [figure.name for figure in figures]
    alone = [name for name in names if name.startswith("12 frames alone")]
    assert alone == ["12 frames alone", "12 frames alone with graphs", "12 frames alone without graphs"]
    assert [name for name in names if "at once" in name] == ["2 videos of 12 frames at once"]
    assert (figures[-1].name, figures[-1].value) == ("graphs", "checked")

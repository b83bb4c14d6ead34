"""The wheel holds all that the product needs, and works in an empty folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.slow
MAX_WHEEL_BYTES = 40 * 2**20
FOLDERS = ("app", "assets", "engine", "eval")
SOURCES = (*FOLDERS, "stepscope", "benchmarks", "tests", "LICENSE", "README.md", "pyproject.toml", "setup.py")


def run(*command: object, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command; return its output. Fails with the output if the command does."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources: a build leaves files in its folder, and takes old ones from there."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / "source" / name)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", "wheel", *options, folder / "source", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment that sees the packages of this one; return its folder of programs."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    # A .pth file of a folder that is only listed is not read: an editable install stays out.
    (site / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}


def test_the_wheel_has_the_product_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"stepscope"}
    for folder in FOLDERS:
        modules = {f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / folder).rglob("*.py")}
        assert modules <= set(names)
    for path in (
        "stepscope/assets/checkpoint/model.safetensors",
        "stepscope/assets/demo/boat.mp4",
        "stepscope/app/style/app.css",
        "stepscope/app/space/files/requirements.txt",
        "stepscope/app/templates/scores.html",
        "stepscope/engine/decisions/policies.toml",
        "stepscope/eval/metrics/metrics.toml",
    ):
        assert path in names
    scripts = [f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "app/player/static").rglob("*.*")]
    run_files = [f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "assets/demo/run").iterdir()]
    assert set(scripts) | set(run_files) <= set(names)
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_the_command_of_the_wheel_streams_a_bundled_video(
    programs: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (video,) = programs.parent.glob("lib/python*/site-packages/stepscope/assets/demo/boat.mp4")
    words = (programs / "stepscope", "run", video, "--out", "boat.jsonl", "--goal", "build the boat", "--device", "cpu")
    assert "frames written to boat.jsonl" in run(*words, cwd=tmp_path, environment=environment)
    assert len((tmp_path / "boat.jsonl").read_text().splitlines()) > 10

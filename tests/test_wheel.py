"""The wheel holds all that the product needs, and works in an empty folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages.browser import free_port
from tests.support.pages.page_http import PageClient, is_served
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


def files_of(folder: Path) -> dict[str, int]:
    """Return the size of every file of a folder, compiled modules excepted."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


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


@pytest.fixture
def page(programs: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """Serve the page from an empty folder and yield its address."""
    port = free_port()
    words = [str(programs / "stepscope"), "demo", "--port", str(port), "--device", "cpu"]
    log = tmp_path.with_suffix(".log")
    with (
        log.open("w") as output,
        subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            until, address = time.monotonic() + 180, f"http://127.0.0.1:{port}"
            while "StepScope: http" not in log.read_text() or not is_served(address):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()


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
    scripts = [f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "app/web/static").rglob("*.*")]
    run_files = [f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "assets/demo/run").iterdir()]
    assert set(scripts) | set(run_files) <= set(names)
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_the_page_of_the_wheel_serves_a_bundled_video_and_writes_nothing_beside_the_code(
    page: str, programs: Path, tmp_path: Path
) -> None:
    (site,) = programs.parent.glob("lib/python*/site-packages")
    before = files_of(site)
    with PageClient(address=page) as client:
        (chosen,) = (part for part in client.config()["components"] if part["props"].get("elem_id") == "chosen")
        event = client.find_event("chosen", "select")
        message = client.run(event["id"], [None, chosen["props"]["value"], 0.5, 0.5])
        assert message["success"], message
        video = message["output"]["data"][1]["path"]
        assert client.file(video).content[4:8] == b"ftyp"
        assert "robot-hard, 0:46, with its saved run." in json.dumps(message["output"]["data"])
    assert files_of(site) == before
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_the_command_of_the_wheel_streams_a_bundled_video(
    programs: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (video,) = programs.parent.glob("lib/python*/site-packages/stepscope/assets/demo/boat.mp4")
    words = (programs / "stepscope", "run", video, "--out", "boat.jsonl", "--goal", "build the boat", "--device", "cpu")
    assert "frames written to boat.jsonl" in run(*words, cwd=tmp_path, environment=environment)
    assert len((tmp_path / "boat.jsonl").read_text().splitlines()) > 10

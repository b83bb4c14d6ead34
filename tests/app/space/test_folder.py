"""The folder of a Space holds all that the Hub needs, and starts from there."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from stepscope.app.cli.stepscope import main
from stepscope.app.space.commands import FILES, SpaceOptions, write_space
from tests.support.pages.browser import free_port
from tests.support.pages.page_http import is_served
from tests.support.paths import ROOT

HOST = "lab-stepscope.hf.space"


def read_requirements(lines: list[str]) -> dict[str, Requirement]:
    found = (Requirement(text) for line in lines if (text := line.partition(" #")[0]) and not text.startswith("#"))
    return {one.name: one for one in found}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("space") / "space"
    assert main(["space", "--out", str(out)]) == 0
    return out


def test_the_requirements_are_those_of_the_package_and_the_torch_of_zerogpu() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = read_requirements(project["dependencies"])
    listed = read_requirements((FILES / "requirements.txt").read_text(encoding="utf-8").splitlines())
    torch, own = listed.pop("torch").specifier, wanted.pop("torch").specifier
    assert listed.pop("spaces").specifier.contains("0.51.3")
    assert {name: str(one) for name, one in listed.items()} == {name: str(one) for name, one in wanted.items()}
    assert all(own.contains(version) and torch.contains(version) for version in ("2.8.0", "2.11.0"))


def test_the_folder_has_the_packages_with_their_data_and_nothing_else(space: Path) -> None:
    names = {path.name for path in space.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {
        "README.md",
        "agents.md",
        "requirements.txt",
        "space.py",
        "stepscope",
    }
    for path in (
        "assets/checkpoint/model.safetensors",
        "assets/demo/boat.mp4",
        "app/player/static/main.js",
        "eval/metrics/metrics.toml",
    ):
        assert (space / "stepscope" / path).read_bytes() == (ROOT / path).read_bytes()
    assert [path for path in space.rglob("*") if path.name == "__pycache__"] == []


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(ValueError, match="name a new folder"):
        write_space(SpaceOptions(out=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.fixture
def served(space: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Start the folder as the Hub does; yield its address and its log."""
    port, log = free_port(), tmp_path / "log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    settings = {"PORT": str(port), "SPACE_ID": "lab/stepscope", "SPACE_HOST": HOST, "HF_HUB_OFFLINE": "1"}
    with (
        log.open("w") as output,
        subprocess.Popen(
            [sys.executable, "space.py"], cwd=space, env={**kept, **settings}, stdout=output, stderr=output
        ) as process,
    ):
        try:
            until, address = time.monotonic() + 180, f"http://127.0.0.1:{port}"
            while not is_served(address):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
            yield address, log
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_folder_starts_as_the_hub_starts_it(served: tuple[str, Path], space: Path) -> None:
    address, log = served
    for host, status in ((HOST, 200), ("evil.example", 421)):
        assert httpx.get(f"{address}/config", headers={"host": host}, timeout=30).status_code == status
    assert "StepScope: http://0.0.0.0:" in log.read_text()
    script = "import stepscope.app as app, importlib.metadata as found; print(app.__file__, found.version('stepscope'))"
    done = subprocess.run([sys.executable, "-c", script], cwd=space, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(space / "stepscope" / "app" / "__init__.py"), "0.1.0"]

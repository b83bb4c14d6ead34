"""The command ``stepscope space``, which writes the folder of a Space, and the start of the page in it."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import stepscope
from stepscope.app.agents.documents import write_guide
from stepscope.engine.cli.interrupts import exit_on_interrupt
from stepscope.engine.cli.program import Command, Options, run_program


@dataclass(frozen=True, kw_only=True)
class SpaceOptions(Options):
    """Write the folder of a Hugging Face Space, which can be pushed as it is."""

    out: Path
    """Folder to write; it must not exist or be empty."""


FILES: Final = Path(__file__).parent / "files"
"""``README.md`` with the front matter, ``requirements.txt`` and ``space.py``, which the Hub expects at the root."""
SOURCES: Final = Path(__file__).parents[2]
PACKAGES: Final = ("app", "assets", "engine", "eval")
"""Of ``stepscope``; in a checkout they lie beside it."""


def write_space(options: SpaceOptions) -> None:
    """Write the folder. Raises ``ValueError`` if it is not empty."""
    out = options.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists and is not an empty folder; name a new folder")
    shutil.copytree(FILES, out, ignore=_skip, dirs_exist_ok=True)
    for module in ("__init__.py", "__main__.py"):
        (out / "stepscope").mkdir(exist_ok=True)
        shutil.copy(Path(stepscope.__file__).with_name(module), out / "stepscope")
    for package in PACKAGES:
        shutil.copytree(SOURCES / package, out / "stepscope" / package, ignore=_skip)
    _write_metadata(out)
    (out / "agents.md").write_text(write_guide("https://NAME-stepscope.hf.space/"), encoding="utf-8")


def _write_metadata(out: Path) -> None:
    """Write the metadata of the package, which Python finds beside ``space.py``: exports record its version."""
    installed = distribution("stepscope")
    folder = out / f"stepscope-{installed.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        installed.read_text("METADATA") or installed.read_text("PKG-INFO") or "", encoding="utf-8"
    )


_skip = shutil.ignore_patterns("__pycache__", "*.pyc")


def space(options: SpaceOptions) -> None:
    """Write the folder of a Space and print the command that pushes it."""
    write_space(options)
    print(f"written: {options.out}")
    print(f"push it: hf upload NAME/stepscope {options.out} . --repo-type space")


VOLUME: Final = Path("/data")
"""Folder where a Space's storage is mounted, which outlives a restart."""
PAGE: Final = Command("serve the page as a Space", "app.cli.options:PageOptions", "app.cli.serve:serve")


def main() -> int:
    """Serve the page with the settings of the Space; options on the command line win. Return the exit code."""
    exit_on_interrupt()
    words = [*space_arguments(os.environ), *sys.argv[1:]]
    return run_program(PAGE, words, prog="python space.py")


def space_arguments(environment: Mapping[str, str], *, volume: Path = VOLUME) -> list[str]:
    """Return the options of the page for the environment of a Space.

    Runs and reviews go to the mounted folder, if there is one. ``STEPSCOPE_REVIEWS`` is a folder, a file or an
    SQLAlchemy URL, and wins.
    """
    words = ["--host", environment.get("GRADIO_SERVER_NAME", "0.0.0.0")]
    words += ["--port", environment.get("PORT") or environment.get("GRADIO_SERVER_PORT", "7860")]
    if host := environment.get("SPACE_HOST"):
        words += ["--allowed-host", host]
    if os.access(volume, os.W_OK):
        words += ["--runs", str(volume / "runs")]
    if reviews := environment.get("STEPSCOPE_REVIEWS"):
        words += ["--reviews", str(Path(reviews) / "reviews.sqlite") if Path(reviews).is_dir() else reviews]
    for option in ("endpoint", "model"):
        words += [f"--{option}", value] if (value := environment.get(f"STEPSCOPE_{option.upper()}")) else []
    return [*words, "--mcp"] if environment.get("STEPSCOPE_MCP") else words

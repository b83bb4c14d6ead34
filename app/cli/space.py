"""Starts the page on a Hugging Face Space, whose settings are environment variables."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stepscope.engine.cli.interrupts import exit_on_interrupt
from stepscope.engine.cli.program import Command, run_program

VOLUME: Final = Path("/data")
"""Folder where a Space's storage is mounted, which outlives a restart."""
SPACE: Final = Command("serve the page as a Space", "app.cli.options:PageOptions", "app.cli.serve:serve")


def main() -> int:
    """Serve the page with the settings of the Space; options on the command line win. Return the exit code."""
    exit_on_interrupt()
    words = [*space_arguments(os.environ), *sys.argv[1:]]
    return run_program(SPACE, words, prog="python space.py")


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
    return words

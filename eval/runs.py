"""Run folders: ``run.json`` with the settings and a ``<video_id>.jsonl`` per video, each written whole or not."""

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine.records import FrameOutput, write_outputs
from eval.table import write_json

_PACKAGES = ("torch", "transformers", "numpy")


def output_path(folder: Path, video_id: str) -> Path:
    """Return where a video's outputs are kept; its id is made a harmless file name."""
    return folder / f"{quote(video_id, safe=' ')}.jsonl"


def write_video(folder: Path, video_id: str, outputs: Iterable[FrameOutput]) -> None:
    """Write one finished video."""
    write_outputs(output_path(folder, video_id), outputs)


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``run.json``: the settings, and the versions of what ran them."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    write_json(folder / "run.json", {**settings, "versions": versions})

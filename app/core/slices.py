"""Slices: saved selections of the videos of a split, kept beside the run folders."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from stepscope.engine.io.json_records import read_record

SLICES: Final = ".slices"


class _Slices(BaseModel):
    """Schema of the file of slices of a split: ids of videos by name."""

    slices: dict[str, list[str]]


def slices_path(runs: Path, split: Path) -> Path:
    """Return the file of the slices of a split, in the folder of runs."""
    digest = hashlib.sha256(str(split.resolve()).encode()).hexdigest()[:8]
    return runs / SLICES / f"{digest}.json"


def read_slices(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the ids of videos by the name of the slice; empty if the file cannot be read."""
    try:
        return read_record(_Slices, path).slices
    except (FileNotFoundError, ValueError):
        return {}

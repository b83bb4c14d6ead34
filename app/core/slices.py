"""Slices: saved selections of the videos of a split, kept beside the run folders."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from stepscope.engine.io.files import write_json
from stepscope.engine.io.json_records import read_record
from stepscope.eval.runs.output_folder import lock_folder

SLICES: Final = ".slices"
MAX_SLICES: Final = 200
_LOCK_TIMEOUT_S: Final = 5.0


class _Slices(BaseModel):
    """Schema of the file of slices of a split: ids of videos by name. Unknown fields, of a newer version, are refused.

    They would be lost with the next slice that is saved.
    """

    model_config = ConfigDict(extra="forbid")

    slices: dict[str, list[str]]


def slices_path(runs: Path, split: Path) -> Path:
    """Return the file of the slices of a split, in the folder of runs."""
    digest = hashlib.sha256(str(split.resolve()).encode()).hexdigest()[:8]
    return runs / SLICES / f"{digest}.json"


def read_slices(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the ids of videos by the name of the slice; empty without a file.

    Raises ``ValueError`` for a file that cannot be read.
    """
    try:
        return read_record(_Slices, path).slices
    except FileNotFoundError:
        return {}
    except ValueError as error:
        problem = str(error).replace(f"{path.parents[1]}/", "")
        raise ValueError(f"the saved slices are kept, but {problem}; restore or remove the file") from error


def write_slice(path: Path, name: str, video_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Save one slice beside the others, and return all of them; two programs follow one another.

    Raises ``ValueError`` for too many, and as ``read_slices``, after which the file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(path.parent, timeout_s=_LOCK_TIMEOUT_S):
        kept = {**read_slices(path), name: video_ids}
        if len(kept) > MAX_SLICES:
            raise ValueError(f"a split has at most {MAX_SLICES} slices; save this one under the name of another")
        write_json(path, {"slices": kept})
    return kept

"""Readers of the files in a run folder; an invalid file raises an error of one sentence with a remedy.

``eval.runs.folder`` describes the files. A run of a different version may lack settings, or have additional ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from engine.config import StreamConfig
from engine.dialogue import STATES
from engine.json_records import read_record, short_repr
from engine.records import FrameOutput, read_outputs
from eval.data.samples import Sample
from eval.matching.turns import ZeroCost

REDO: Final = "continue the run, which runs this video again"
_REMEDY: Final = "restore the file, or run into a new folder"
_STATES: Final = frozenset(STATES)


class RunSettings(BaseModel):
    """Schema of ``run.json``."""

    model_config = ConfigDict(extra="allow")

    split: str = ""
    checkpoint: str = ""
    model_digest: str = ""
    heads_digest: str | None = None
    device: str = ""
    devices: list[str] = []
    config: dict[str, Any] = {}
    live: bool = False
    kept_features: bool = False
    text_encoder: str = ""
    dataset: str = ""
    zero_cost: ZeroCost = "keep"
    imported: list[str] = []
    versions: dict[str, str] = {}


def read_settings(path: Path) -> Mapping[str, Any] | None:
    """Read a ``run.json``; return None if it does not exist. Raises ``ValueError`` for a wrong type or range."""
    try:
        settings = read_record(RunSettings, path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{error}; {_REMEDY}") from error
    known = {field.name for field in fields(StreamConfig)}
    try:
        StreamConfig(**{name: value for name, value in settings.config.items() if name in known})
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: config.{error}; {_REMEDY}") from error
    return settings.model_dump(exclude_unset=True)


def read_sample_outputs(path: Path, sample: Sample) -> tuple[FrameOutput, ...]:
    """Read the outputs of a video, one per frame.

    Raises ``ValueError`` if they are missing or invalid, or if their steps are not those of the sample.
    """
    try:
        outputs = read_outputs(path)
        _check_frames(outputs, sample)
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing; {REDO}") from error
    except ValueError as error:
        raise ValueError(f"{error if str(path) in str(error) else f'{path}, {error}'}; {REDO}") from error
    return outputs


def _check_frames(outputs: Sequence[FrameOutput], sample: Sample) -> None:
    ids = {step.id for step in sample.steps}
    for index, output in enumerate(outputs):
        if output.frame_index != index:
            raise ValueError(f"line {index + 1}: frame_index must count from 0; got {output.frame_index}")
        state = output.dst_state
        if state.keys() != ids or not _STATES.issuperset(state.values()):
            raise ValueError(
                f"line {index + 1}: dst_state must have the steps of the split, {', '.join(sorted(ids))}, "
                f"each as one of {', '.join(STATES)}; got {short_repr(dict(state))}"
            )

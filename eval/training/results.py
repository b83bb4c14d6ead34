"""Reads the files of a training folder: progress, curves, validations and the table of clips.

Each reader raises ``ValueError`` with file and reason for an invalid file. A missing file counts as empty.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from stepscope.engine.io.files import open_text, unescape_formula, write_csv
from stepscope.engine.io.json_records import Count, Finite, read_record, reading
from stepscope.engine.training.curves import (
    LOG_FILE,
    LOSS_NAMES,
    LOSSES_FILE,
    PROGRESS_FILE,
    WORK_FOLDER,
    TrainingProgress,
)
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings, describe_scoring
from stepscope.eval.training.clip_table import ClipRow

CLIPS_FILE: Final = "clips.csv"
SHOWN_SCORES: Final = ("F1", "speaking_f1", "dst_update_f1", "dst_f1", "dst_joint_goal_accuracy", "dst_timeline_score")
"""Scores of the model card and of the curves."""
VALIDATION_BASIS: Final = describe_scoring(asdict(ScoreSettings(text_encoder=DEFAULT_ENCODER)))
T = TypeVar("T")
_Cells = Mapping[str, str | None]


class _Progress(BaseModel):
    step: Count
    num_steps: Count
    best_step: Count | None
    best_score: Finite | None
    problem: str = ""
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResults:
    """The files of a training folder."""

    clips: tuple[ClipRow, ...] = ()
    progress: TrainingProgress | None = None
    """None before the first step."""
    losses: tuple[Mapping[str, float], ...] = ()
    """Per row: ``step``, and the mean of each of ``LOSS_NAMES`` since the row before; nan without labels."""
    validations: tuple[Mapping[str, float], ...] = ()
    """Per validation: ``step``, ``score``, and scores by name."""
    written_s: float = math.nan
    """Time of the last change, in seconds since the epoch."""


def is_training_folder(folder: Path) -> bool:
    """Whether a training run was started in a folder."""
    return (folder / WORK_FOLDER / CLIPS_FILE).is_file()


def write_clips(work: Path, rows: Sequence[ClipRow]) -> None:
    """Write the table of clips to the working folder of a session."""
    write_csv(work / CLIPS_FILE, [asdict(row) for row in rows], columns=[field.name for field in fields(ClipRow)])


def read_results(folder: Path) -> TrainingResults:
    """Read all files of a training folder."""
    work = folder / WORK_FOLDER
    known = [path for name in (PROGRESS_FILE, LOG_FILE, CLIPS_FILE) if (path := work / name).is_file()]
    progress = work / PROGRESS_FILE
    return TrainingResults(
        clips=tuple(_read_table(work / CLIPS_FILE, {"video_id"}, _read_clip)),
        progress=TrainingProgress(**read_record(_Progress, progress).model_dump()) if progress.is_file() else None,
        losses=tuple(_read_table(work / LOSSES_FILE, {"step", *LOSS_NAMES}, _read_numbers)),
        validations=tuple(_read_table(work / LOG_FILE, {"step", "score"}, _read_numbers)),
        written_s=max((path.stat().st_mtime for path in known), default=math.nan),
    )


def _read_table(path: Path, columns: set[str], read: Callable[[_Cells], T]) -> list[T]:
    if not path.is_file():
        return []
    with reading(path), open_text(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        missing = columns - set(reader.fieldnames or ())
        if missing:
            raise ValueError(f"the columns {', '.join(sorted(missing))} are missing")
        return [read(row) for row in reader]


def _read_numbers(row: _Cells) -> Mapping[str, float]:
    return {name: float(cell) if cell else math.nan for name, cell in row.items()}


def _read_clip(row: _Cells) -> ClipRow:
    values: dict[str, str | float | bool] = {}
    for field in fields(ClipRow):
        cell = row.get(field.name) or ""
        if field.type is str:
            values[field.name] = unescape_formula(cell)
        elif field.type is bool:
            values[field.name] = cell == "True"
        else:
            values[field.name] = int(cell or 0) if field.type is int else float(cell or "nan")
    return ClipRow(**values)  # type: ignore[arg-type]  # of the types of the fields

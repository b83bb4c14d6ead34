"""Reads the files of a training folder: progress, curves, validations and the table of clips.

Each reader raises ``ValueError`` with file and reason for an invalid file. A missing file counts as empty.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, TypeVar

from stepscope.engine.io.files import unescape_formula, write_csv
from stepscope.engine.io.json_records import read_record
from stepscope.engine.plurals import format_count
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
from stepscope.eval.reports.table_files import Cells, read_numbers, read_table

CLIPS_FILE: Final = "clips.csv"
SHOWN_SCORES: Final = ("F1", "speaking_f1", "dst_update_f1", "dst_f1", "dst_joint_goal_accuracy", "dst_timeline_score")
"""Scores of the model card and of the curves."""
VALIDATION_BASIS: Final = describe_scoring(asdict(ScoreSettings(text_encoder=DEFAULT_ENCODER)))
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipRow:
    """One row of the table of clips."""

    video_id: str
    frames: int = 0
    minutes: float = math.nan
    responses: int = 0
    updates: int = 0
    user_turns: int = 0
    turns_per_minute: float = math.nan
    speaking_rate: float = math.nan
    """Fraction of frames with a response; likewise ``update_rate``."""
    update_rate: float = math.nan
    steps: int = 0
    steps_never_seen: int = 0
    """Steps that no update of the clip names."""
    contexts: int = 0
    """Contexts that the clip is split into, as a stream refreshes."""
    longest_context: int = 0
    problem: str = ""
    """The reason why the clip cannot be used, or the parts that it lacks."""
    is_used: bool = True


def summarize(rows: Sequence[ClipRow]) -> list[str]:
    """Return the sums of a table as lines of text."""
    used = [row for row in rows if row.is_used]
    if not used:
        return [f"0 of {format_count(len(rows), 'clip')} can be used"]
    frames, minutes = sum(row.frames for row in used), sum(row.minutes for row in used)
    speaking = sum(row.speaking_rate * row.frames for row in used)
    updating = sum(row.update_rate * row.frames for row in used)
    turns = sum(row.responses + row.updates for row in used)
    unseen, steps = sum(row.steps_never_seen for row in used), sum(row.steps for row in used)
    contexts, longest = sum(row.contexts for row in used), max((row.longest_context for row in used), default=0)
    return [
        f"{len(used)} of {format_count(len(rows), 'clip')}, {format_count(frames, 'frame')}, {minutes:.1f} minutes",
        f"{turns / max(minutes, 1e-9):.1f} responses and updates per minute; {_balance(speaking, frames)} speak, "
        f"{_balance(updating, frames)} update",
        f"{unseen} of {format_count(steps, 'step')} without an update",
        f"{format_count(contexts, 'context')}, the longest of {longest} tokens",
    ]


def _balance(positive: float, frames: int) -> str:
    return f"1 of {frames / positive:.0f} frames" if positive else "no frames"


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
        clips=_read_table(work / CLIPS_FILE, ("video_id",), _read_clip),
        progress=read_record(TrainingProgress, progress) if progress.is_file() else None,
        losses=_read_table(work / LOSSES_FILE, ("step", *LOSS_NAMES), read_numbers),
        validations=_read_table(work / LOG_FILE, ("step", "score"), read_numbers),
        written_s=max((path.stat().st_mtime for path in known), default=math.nan),
    )


def _read_table(path: Path, columns: Sequence[str], read: Callable[[Cells], T]) -> tuple[T, ...]:
    return tuple(read_table(path, columns, read)) if path.is_file() else ()


def _read_clip(row: Cells) -> ClipRow:
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

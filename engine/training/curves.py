"""The curves of a session for readers: ``losses.csv`` and ``progress.json``, written while it trains.

``losses.csv`` has at most 500 rows, each with the mean losses of as many steps: a run of 2,000 steps has a row for
every fourth one. ``progress.json`` has the completed steps, the best validation, and the error of a failed session.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from stepscope.engine.io.files import write_csv, write_json
from stepscope.engine.io.json_records import Count, Finite

LOSS_NAMES: Final = ("text", "speak", "update")
"""Losses of streaming; see ``engine.training.losses``."""
WORK_FOLDER: Final = "training"
"""Folder of the files of a session, in its result folder."""
LOG_FILE: Final = "log.csv"
LOSSES_FILE: Final = "losses.csv"
PROGRESS_FILE: Final = "progress.json"
MAX_ROWS: Final = 500


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not nan; nan without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


@dataclass(slots=True, kw_only=True)
class LossCurve:
    """Mean losses of consecutive groups of steps."""

    names: Sequence[str] = LOSS_NAMES
    rows: list[dict[str, float]] = field(default_factory=list)
    """Per group: its last ``step``, and the mean of each loss."""
    pending: list[list[float]] = field(default_factory=list)
    """Losses of the steps since the last row, in the order of ``names``."""

    def add(self, losses: Mapping[str, float], *, step: int, num_steps: int) -> bool:
        """Add the losses of a step; return whether a row was completed."""
        self.pending.append([losses[name] for name in self.names])
        if step % max(1, -(-num_steps // MAX_ROWS)) and step != num_steps:
            return False
        means = map(mean, zip(*self.pending, strict=True))
        self.rows.append({"step": step, **dict(zip(self.names, means, strict=True))})
        self.pending = []
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """The state of a session in ``progress.json``."""

    step: Count
    num_steps: Count
    best_step: Count | None
    """Step of the checkpoint in the folder; None before the first one."""
    best_score: Finite | None
    """Its validation score; None without validation data."""
    problem: str = ""
    is_over: bool = False
    """Whether training has ended: after the last step, by early stopping, or by a failure."""


def write_curves(folder: Path, progress: TrainingProgress, curve: LossCurve) -> None:
    """Write both files to the working folder of a session; each is replaced atomically."""
    write_csv(folder / LOSSES_FILE, curve.rows, columns=["step", *curve.names])
    write_json(folder / PROGRESS_FILE, asdict(progress))

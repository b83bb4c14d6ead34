"""Records of a split: its samples, each a video with its task and reference dialogue.

``eval.data.loading`` reads them from files.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.records import Excerpt, Step, UserTurn, frame_at

Role = Literal["update", "user", "assistant"]
ROLE_ORDER: Mapping[str, int] = {"update": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reference turn."""

    time_s: float
    """Seconds from the start of the sample; its frame is ``floor(time_s * fps)``."""
    role: Role
    text: str
    """The message, or the update as text, such as ``S3->complete``."""
    cause: str | None = None
    """Why this turn is hard, if the data names a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One video of a split."""

    video_id: str
    """Id of the sample, unique in the split."""
    video_path: Path | None
    """The video file, which may be longer than the sample; None if there are only features."""
    fps: float
    num_frames: int
    goal: str
    steps: tuple[Step, ...]
    turns: tuple[Turn, ...]
    """The reference dialogue by time; at the same time updates, user, assistant."""
    initial_state: Mapping[str, str]
    """States at the start; steps that are missing here have not started."""
    start_s: float | None = None
    """Start of the sample's ``num_frames`` in the file, in seconds; None if the sample is the whole file."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The part of the file that the sample covers; None for the whole file."""
        return None if self.start_s is None else Excerpt(start_s=self.start_s, num_frames=self.num_frames)

    @property
    def user_turns(self) -> tuple[UserTurn, ...]:
        """The user's messages."""
        return tuple(UserTurn(time_s=turn.time_s, text=turn.text) for turn in self.turns if turn.role == "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidSample:
    """An invalid record of a split."""

    video_id: str
    """Id of the record, unique in the split; its position in the file if it has none."""
    reason: str
    """The file, the problem and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The valid and invalid records of a split."""

    path: Path
    entries: tuple[Sample | InvalidSample, ...]
    """In the order of the file."""
    digest: str = field(default="", compare=False)
    """SHA-256 of the file when it was read; empty if it was not read."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The valid samples."""
        return tuple(entry for entry in self.entries if isinstance(entry, Sample))


def is_inside(time_s: float, sample: Sample) -> bool:
    """Whether a time falls on one of the sample's frames."""
    return 0 <= time_s < math.inf and frame_at(time_s, sample.fps) < sample.num_frames


def turn_order(turn: Turn) -> tuple[float, int]:
    """Return the sort key of a turn: its time, then updates, user, assistant."""
    return turn.time_s, ROLE_ORDER[turn.role]

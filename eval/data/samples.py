"""Samples: a video with its task and its reference dialogue, and the split that it belongs to.

Records only; ``eval.data.loading`` reads them from files.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.records import Excerpt, Step, UserTurn, frame_at

Role = Literal["update", "user", "assistant"]
ROLE_ORDER: Mapping[str, int] = {"update": 0, "user": 1, "assistant": 2}
"""How turns of one time follow one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reference turn."""

    time_s: float
    """Seconds from the start of the sample; its frame is ``floor(time_s * fps)``."""
    role: Role
    """An update of the state, the user, or the assistant."""
    text: str
    """The words, or the update as text, such as ``S3->complete``."""
    cause: str | None = None
    """What makes this turn hard, where the data names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One video of a split."""

    video_id: str
    """Its name, unique in the split."""
    video_path: Path | None
    """The file, which may be longer than the sample; None when there are only features."""
    fps: float
    """Sampled frames per second."""
    num_frames: int
    """Sampled frames."""
    goal: str
    """What is made or done."""
    steps: tuple[Step, ...]
    """The steps of the task."""
    turns: tuple[Turn, ...]
    """The reference dialogue by time; at one time updates, user, assistant."""
    initial_state: Mapping[str, str]
    """States at the start; steps that are not named have not started."""
    start_s: float | None = None
    """Seconds of the file at which the sample's ``num_frames`` start; None when the sample is the whole file."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The part of the file that the sample is; None when it is the whole file."""
        return None if self.start_s is None else Excerpt(start_s=self.start_s, num_frames=self.num_frames)

    @property
    def user_turns(self) -> tuple[UserTurn, ...]:
        """What the user says."""
        return tuple(UserTurn(time_s=turn.time_s, text=turn.text) for turn in self.turns if turn.role == "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidSample:
    """A record of a split that cannot be used."""

    video_id: str
    """Its name, unique in the split; its place in the file when it has none."""
    reason: str
    """What is wrong, in which file, with the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The videos of a split, and the records that are none."""

    path: Path
    """Its file."""
    entries: tuple[Sample | InvalidSample, ...]
    """In the order of the file."""
    digest: str = field(default="", compare=False)
    """SHA-256 of the file as it was read; empty for one that was not read."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The videos."""
        return tuple(entry for entry in self.entries if isinstance(entry, Sample))


def is_inside(time_s: float, sample: Sample) -> bool:
    """Whether a time lies in a sample's video: on one of its frames."""
    return 0 <= time_s < math.inf and frame_at(time_s, sample.fps) < sample.num_frames


def turn_order(turn: Turn) -> tuple[float, int]:
    """Return what turns are sorted by: their time; at one time updates, user, assistant."""
    return turn.time_s, ROLE_ORDER[turn.role]

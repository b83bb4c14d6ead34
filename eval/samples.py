"""Samples: a video with its task and its reference dialogue.

Reads our own manifest, one JSON object per split: ``{"videos": [...]}``, each video with the fields of ``Sample``
(``video_path`` relative to the manifest, turns in seconds). Nothing is dropped silently: what cannot be used is a
``ValueError`` that names file, video, field and cure.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from engine.dialogue import initial_state, parse_update
from engine.records import Step, UserTurn

Role = Literal["update", "user", "assistant"]
_ORDER: dict[str, int] = {"update": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reference turn."""

    time_s: float
    """Seconds from the start of the video; its frame is ``floor(time_s * fps)``."""
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
    """The file; None when there are only features."""
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

    @property
    def user_turns(self) -> tuple[UserTurn, ...]:
        """What the user says."""
        return tuple(UserTurn(time_s=turn.time_s, text=turn.text) for turn in self.turns if turn.role == "user")


def read_samples(path: str | Path) -> list[Sample]:
    """Read all samples of a manifest. Raises ``ValueError`` naming file, video, field and cure."""
    manifest = Path(path)
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"{manifest} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("videos"), list):
        raise ValueError(f'{manifest} is not a manifest; write one JSON object with a list "videos"')
    samples = []
    for number, record in enumerate(content["videos"]):
        name = record.get("video_id", f"number {number}") if isinstance(record, dict) else f"number {number}"
        try:
            samples.append(_sample(record, manifest.parent))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{manifest}, video {name}: {reason}") from error
    ids = [sample.video_id for sample in samples]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{manifest}: two videos have one video_id; name each differently")
    return samples


def _sample(record: dict[str, Any], folder: Path) -> Sample:
    if not isinstance(record, dict):
        raise ValueError("a video must be a JSON object")
    fps, num_frames = _positive("fps", record["fps"]), int(_positive("num_frames", record["num_frames"]))
    steps = tuple(Step(id=_text("id", step["id"]), name=_text("name", step["name"])) for step in record["steps"])
    states = record.get("initial_state") or {}
    initial_state(steps, states)
    turns = [_turn(turn, duration_s=num_frames / fps) for turn in record["turns"]]
    video_path = record.get("video_path")
    return Sample(
        video_id=_text("video_id", record["video_id"]),
        video_path=None if video_path is None else folder / _text("video_path", video_path),
        fps=fps,
        num_frames=num_frames,
        goal=_text("goal", record["goal"]),
        steps=steps,
        turns=tuple(sorted(turns, key=lambda turn: (turn.time_s, _ORDER[turn.role]))),
        initial_state=dict(states),
    )


def _turn(record: dict[str, Any], *, duration_s: float) -> Turn:
    time_s, role, text = float(record["time_s"]), record["role"], _text("text", record["text"])
    if not 0 <= time_s < duration_s:
        raise ValueError(f"time_s {time_s} of the turn {text!r} lies outside the video of {duration_s:g} s")
    if role not in get_args(Role):
        raise ValueError(f"role must be one of {', '.join(get_args(Role))}; got {role!r}")
    if role == "update" and parse_update(text) is None:
        raise ValueError(f"the update {text!r} must be written as S3->start or S3->complete")
    cause = record.get("cause")
    return Turn(time_s=time_s, role=role, text=text, cause=None if cause is None else _text("cause", cause))


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field} must be text; got {value!r}")
    return value


def _positive(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{field} must be a positive number; got {value!r}")
    return float(value)

"""Reads annotated clips for training from JSON lines, one clip per line; an invalid line is an error.

A line has ``features`` (a feature file, relative to the JSON lines file), ``goal``, ``steps`` (``[{id, name}]``),
``turns`` (``[{frame_index, role, text}]``) and, optionally, ``initial_state``.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.dialogue import initial_state, parse_update
from engine.io import load_json
from engine.model.checkpoint import Checkpoint
from engine.model.feature_files import read_features
from engine.records import Step, numbered_lines
from engine.training.trainer import TrainingClip, TrainingSequence, TrainingTurn, build_sequence

_ROLES = ("update", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedClip:
    """A clip with its frame features."""

    clip: TrainingClip
    features: Tensor
    """Features ``[T, I, F]``, or any ``[T, ...]`` that the trainer's ``embed`` takes."""


def read_clips(path: Path, checkpoint: Checkpoint, *, fps: float) -> list[EncodedClip]:
    """Read clips with their features. Raises ``ValueError`` or ``FeatureError``, naming file and line."""
    clips = []
    for number, line in numbered_lines(path):
        try:
            record = load_json(line)
            frames = list(read_features(path.parent / record["features"], checkpoint, fps=fps))
            clips.append(_clip(record, torch.stack([frame.features for frame in frames])))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{path}, line {number}: {reason}") from error
    if not clips:
        raise ValueError(f"{path} holds no clips; write one JSON object per line")
    return clips


def _clip(record: dict[str, Any], features: Tensor) -> EncodedClip:
    steps = tuple(Step(**step) for step in record["steps"])
    for step in steps:
        _check_text(step.id, "the id of a step")
        _check_text(step.name, "the name of a step")
    state = record.get("initial_state", {})
    if not isinstance(state, dict):
        raise ValueError(f"initial_state must be an object, step: state; got {state!r}")
    initial_state(steps, state)
    turns = tuple(TrainingTurn(**turn) for turn in record["turns"])
    for turn in turns:
        _check_turn(turn, steps, num_frames=len(features))
    _check_text(record["goal"], "goal")
    clip = TrainingClip(goal=record["goal"], steps=steps, turns=turns, num_frames=len(features), initial_state=state)
    return EncodedClip(clip=clip, features=features)


def _check_turn(turn: TrainingTurn, steps: Sequence[Step], *, num_frames: int) -> None:
    if type(turn.frame_index) is not int:  # nor a bool
        raise ValueError(f"frame_index must be a whole number; got {turn.frame_index!r}")
    if turn.role not in _ROLES or not 0 <= turn.frame_index < num_frames:
        raise ValueError(f"the turn {turn} has an unknown role or is outside the {num_frames} frames")
    _check_text(turn.text, "the text of a turn")
    if turn.role != "update":
        return
    update, ids = parse_update(turn.text), [step.id for step in steps]
    if update is None or update.step_id not in ids:
        known = ", ".join(ids) or "no step"
        raise ValueError(f"the update {turn.text!r} must have the form S3->start or S3->complete, of one of {known}")


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text; got {value!r}")


def batches(
    clips: Sequence[EncodedClip], checkpoint: Checkpoint, *, batch_size: int, seed: int, mid_start_rate: float = 0.3
) -> Iterator[tuple[list[TrainingSequence], Tensor]]:
    """Yield batches endlessly: ``B`` sequences, and the features ``[N, F]`` of all their image tokens.

    Clips come in random order, and with probability ``mid_start_rate`` from a random frame on, as after a refresh. An
    epoch drops the last incomplete batch, unless it is the only one: with 10 clips and ``batch_size`` 4 it has two
    batches, with 3 clips one batch of 3. Raises ``ValueError`` for a ``batch_size`` below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    rng = random.Random(seed)
    per_frame = checkpoint.model.tokens_per_frame
    while True:
        order = list(clips)
        rng.shuffle(order)
        for start in range(0, len(order) - len(order) % batch_size or len(order), batch_size):
            sequences, features = [], []
            for item in order[start : start + batch_size]:
                first = rng.randrange(item.clip.num_frames) if rng.random() < mid_start_rate else 0
                sequences.append(
                    build_sequence(item.clip, checkpoint.prompt, tokens_per_frame=per_frame, first_frame=first)
                )
                features.append(item.features[first:].flatten(0, 1))
            yield sequences, torch.cat(features)

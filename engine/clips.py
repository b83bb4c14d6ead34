"""Annotated clips on disk, for training: JSON lines, one clip each, beside the feature files that they name.

A line has ``features`` (a feature file, relative to the JSON lines file), ``goal``, ``steps`` (``[{id, name}]``),
``turns`` (``[{frame_index, role, text}]``) and, optionally, ``initial_state``. Nothing is skipped: what cannot be used
is an error that names file, line and field.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint import Checkpoint
from engine.dialogue import parse_update
from engine.features import read_features
from engine.records import Step, numbered_lines
from engine.train import TrainingClip, TrainingSequence, TrainingTurn, build_sequence

_ROLES = ("update", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedClip:
    """A clip with its frame features."""

    clip: TrainingClip
    """The annotation."""
    features: Tensor
    """Features ``[T, I, F]``, or any ``[T, ...]`` that the trainer's ``embed`` takes."""


def read_clips(path: Path, checkpoint: Checkpoint, *, fps: float) -> list[EncodedClip]:
    """Read clips with the features that they name. Raises ``ValueError`` or ``FeatureError``."""
    clips = []
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
            frames = list(read_features(path.parent / record["features"], checkpoint, fps=fps))
            clips.append(_clip(record, torch.stack([frame.features for frame in frames])))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"the field {error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{path}, line {number}: {reason}") from error
    if not clips:
        raise ValueError(f"{path} holds no clips; write one JSON object a line")
    return clips


def _clip(record: dict[str, Any], features: Tensor) -> EncodedClip:
    turns = tuple(TrainingTurn(**turn) for turn in record["turns"])
    for turn in turns:
        if turn.role not in _ROLES or not 0 <= turn.frame_index < len(features):
            raise ValueError(f"the turn {turn} has an unknown role or lies outside the {len(features)} frames")
        if turn.role == "update" and parse_update(turn.text) is None:
            raise ValueError(f"the update {turn.text!r} must be written as S3->start or S3->complete")
    clip = TrainingClip(
        goal=record["goal"],
        steps=tuple(Step(**step) for step in record["steps"]),
        turns=turns,
        num_frames=len(features),
        initial_state=record.get("initial_state", {}),
    )
    return EncodedClip(clip=clip, features=features)


def batches(
    clips: Sequence[EncodedClip],
    checkpoint: Checkpoint,
    *,
    batch_size: int,
    seed: int,
    mid_start_rate: float = 0.3,
) -> Iterator[tuple[list[TrainingSequence], Tensor]]:
    """Draw batches for ever: clips in random order, some from their middle on, as after a refresh.

    Raises ``ValueError`` for a batch size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    chance = random.Random(seed)
    per_frame = checkpoint.model.tokens_per_frame
    while True:
        order = list(clips)
        chance.shuffle(order)
        for start in range(0, len(order) - len(order) % batch_size or len(order), batch_size):
            sequences, features = [], []
            for item in order[start : start + batch_size]:
                first = chance.randrange(item.clip.num_frames) if chance.random() < mid_start_rate else 0
                sequences.append(
                    build_sequence(item.clip, checkpoint.prompt, tokens_per_frame=per_frame, first_frame=first)
                )
                features.append(item.features[first:].flatten(0, 1))
            yield sequences, torch.cat(features)

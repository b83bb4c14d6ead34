"""Clips for training with their frame features on disk, and the batches that are drawn from them.

``read_clips`` reads JSON lines, one clip per line: ``features`` (a feature file, relative to the JSON lines file),
``goal``, ``steps`` (``[{id, name}]``), ``turns`` (``[{frame_index, role, text}]``) and, optionally, ``initial_state``.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.errors import ContextError, FeatureError
from stepscope.engine.io.json_records import parse_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import open_features
from stepscope.engine.records import Step, numbered_lines
from stepscope.engine.training.objective import Batch
from stepscope.engine.training.sequences import (
    ContextRules,
    TrainingClip,
    TrainingSequence,
    TrainingTurn,
    build_sequence,
    find_contexts,
)


class FrameSource(Protocol):
    """Frame features, in memory or on disk."""

    def read(self, first: int = 0, stop: int | None = None) -> Tensor:
        """Return the features ``[n, ...]`` of the frames from ``first`` to before ``stop``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedClip:
    """A clip with its frame features."""

    name: str
    clip: TrainingClip
    source: FrameSource


def read_clips(
    path: Path, checkpoint: Checkpoint, *, fps: float, on_invalid: Callable[[str], None] | None = None
) -> list[EncodedClip]:
    """Read clips and open their feature files.

    Raises ``ValueError``, naming file and line, for an invalid clip, or if there is no clip. With ``on_invalid`` an
    invalid clip is left out unless all are, and the function is called with the message.
    """
    clips, problems = [], []
    for number, line in numbered_lines(path):
        try:
            clips.append(_read_clip(line, path, number, checkpoint, fps))
        except ValueError as error:
            if on_invalid is None:
                raise
            on_invalid(str(error))
            problems.append(str(error))
    if not clips:
        empty = f"{path} holds no clips; write one JSON object per line"
        raise ValueError(f"no clip can be used; {problems[0]}" if problems else empty)
    return clips


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClipRecord:
    """A line of a file of clips."""

    features: str
    goal: str
    steps: tuple[Step, ...]
    turns: tuple[TrainingTurn, ...]
    initial_state: dict[str, str] = field(default_factory=dict)


def _read_clip(line: str, path: Path, number: int, checkpoint: Checkpoint, fps: float) -> EncodedClip:
    try:
        record = parse_record(_ClipRecord, line.removeprefix("\ufeff"))  # of files that were joined
        source = open_features(path.parent / record.features, checkpoint, fps=fps)
        clip = TrainingClip(
            goal=record.goal,
            steps=record.steps,
            turns=record.turns,
            num_frames=source.num_frames,
            initial_state=record.initial_state,
        )
        _check_clip(clip)
    except (ValueError, FeatureError) as error:
        raise ValueError(f"{path}, line {number}: {error}") from error
    return EncodedClip(name=f"line {number}", clip=clip, source=source)


def _check_clip(clip: TrainingClip) -> None:
    initial_state(clip.steps, clip.initial_state)
    ids = [step.id for step in clip.steps]
    for turn in clip.turns:
        if not 0 <= turn.frame_index < clip.num_frames:
            raise ValueError(f"the turn {turn} is outside the {clip.num_frames} frames")
        update = parse_update(turn.text)
        if turn.role == "update" and (update is None or update.step_id not in ids):
            known = ", ".join(ids) or "no step"
            raise ValueError(
                f"the update {turn.text!r} must have the form S3->start or S3->complete, of one of {known}"
            )


def check_contexts(
    clip: TrainingClip, checkpoint: Checkpoint, rules: ContextRules, *, source: FrameSource | None
) -> list[TrainingSequence]:
    """Return the sequences of a clip's contexts; without ``source``, frames have the most tokens.

    Raises ``ContextError`` if one is longer than the model allows.
    """
    limit = checkpoint.model.max_context
    per_frame = checkpoint.model.tokens_per_frame if source is None else _count_tokens(source, checkpoint)
    contexts = find_contexts(clip, checkpoint.trained_prompt, rules, tokens_per_frame=per_frame)
    longest = max((len(context.ids) for context in contexts), default=0)
    if longest > limit:
        bound = "at most " * (source is None and not checkpoint.model.image_size)
        raise ContextError(
            f"a context of it has {bound}{longest} tokens, but the model has {limit} positions; lower --max-seq-len, "
            "or shorten its turns"
        )
    return contexts


def _count_tokens(source: FrameSource, checkpoint: Checkpoint) -> int:
    return checkpoint.model.count_tokens(source.read(0, 1)[0])


def batches(
    clips: Sequence[EncodedClip],
    checkpoint: Checkpoint,
    rules: ContextRules = ContextRules(),  # noqa: B008 - frozen
    *,
    batch_size: int,
    seed: int,
    mid_start_rate: float = 0.3,
    first_step: int = 0,
) -> Iterator[Batch]:
    """Yield batches endlessly: ``B`` sequences, and the features ``[N, F]`` of all their image tokens, or of each.

    The contexts of all clips come in random order, and with probability ``mid_start_rate`` one from a random frame of
    its clip on, as after a refresh. An epoch drops the last incomplete batch, unless it is the only one: with 10
    contexts and ``batch_size`` 4 it has two batches, with 3 one batch of 3. The batches are those from ``first_step``
    on. Raises ``ValueError`` for a ``batch_size`` below 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
    is_branched = rules.decisions in ("answer", "state-token")
    items = [
        (item, first)
        for item in clips
        for first in _first_frames(check_contexts(item.clip, checkpoint, rules, source=item.source))
    ]
    starts = range(0, len(items) - len(items) % batch_size or len(items), batch_size)
    epoch, skipped = divmod(first_step, len(starts))
    while True:
        rng = random.Random(f"{seed} {epoch}")
        order = list(items)
        rng.shuffle(order)
        drawn = [
            (item, rng.randrange(item.clip.num_frames) if rng.random() < mid_start_rate else first)
            for item, first in order
        ]
        for start in starts[skipped:]:
            sequences, features = [], []
            for item, first in drawn[start : start + batch_size]:
                sequence = build_sequence(
                    item.clip,
                    checkpoint.trained_prompt,
                    rules,
                    tokens_per_frame=_count_tokens(item.source, checkpoint),
                    first_frame=first,
                )
                sequences.append(sequence)
                features.append(item.source.read(first, first + len(sequence.ends)))
            yield sequences, features if is_branched else torch.cat([one.flatten(0, 1) for one in features])
        epoch, skipped = epoch + 1, 0


def _first_frames(contexts: Sequence[TrainingSequence]) -> Iterator[int]:
    first = 0
    for context in contexts:
        yield first
        first += len(context.ends)

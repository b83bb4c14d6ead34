"""Writes samples in the three formats that ``eval.data.loading`` reads.

A written split loads again unchanged: every record is read back before the file is written, and a value that a format
cannot hold raises ``ValueError``. A sample that is a whole file becomes a published clip from frame 0.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, get_args

from engine.dialogue import apply_update, initial_state, parse_update
from engine.io import atomic_write, to_json, write_json
from engine.records import frame_at
from eval.data.loading import read_published
from eval.data.samples import Sample, Turn, is_inside, turn_order

FileFormat = Literal["manifest", "dst", "proassist"]
OptionalField = Literal["video_path", "cause", "updates"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
OPTIONAL_FIELDS: Final[dict[OptionalField, str]] = {
    "video_path": "the video's file",
    "cause": "what makes a turn hard",
    "updates": "state updates",
}
"""Fields that some formats cannot hold and that ``omit`` can leave out, with their descriptions."""
_FIELDS = ("video_id", "video_path", "fps", "num_frames", "goal", "steps", "initial_state")


class UnsupportedFieldError(ValueError):
    """A format cannot hold a field that ``omit`` can leave out."""

    def __init__(self, problem: str, field: OptionalField) -> None:
        super().__init__(f"{problem}; name {field!r} in 'omit' to leave it out, or write a manifest")
        self.problem = problem
        """The video and the field that its format cannot hold, without the remedy."""
        self.field: OptionalField = field


def write_samples(
    path: Path,
    samples: Sequence[Sample],
    *,
    file_format: FileFormat,
    omit: Collection[OptionalField] = (),
    videos: Mapping[Path, str] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a split atomically.

    Args:
        path: The file. A manifest stores videos below its folder as relative paths and all other videos as absolute
            paths.
        samples: Samples in the order to write.
        file_format: Our manifest (one object), DST training clips (a list) or ProAssist dialogues (JSON lines).
        omit: Fields to leave out because the format cannot hold them; ``updates`` includes the initial state.
        videos: Path to store in the manifest for a video file, instead of its own.
        provenance: Origin of the samples. A manifest stores it in the field ``provenance``, which
            ``eval.data.loading`` ignores; the published formats store it in ``<path>.provenance.json``.

    Raises:
        UnsupportedFieldError: The format cannot hold a field that ``omit`` can leave out.
        ValueError: The format cannot hold a sample; the message names the video and the value.
    """
    _check(samples)
    kept = [_omit(sample, omit) for sample in samples]
    if file_format == "manifest":
        folder, names = path.resolve().parent, videos or {}
        listed = [_listed(sample, names.get(sample.video_path or path), folder) for sample in kept]
        text = to_json({**({"provenance": provenance} if provenance else {}), "videos": listed}, indent=1)
    else:
        records = [_published(sample, file_format) for sample in kept]
        lines = ",\n".join(to_json(record) for record in records)
        text = f"[{lines}]" if file_format == "dst" else "\n".join(to_json(record) for record in records)
    with atomic_write(path) as file:
        file.write(text + "\n")
    if provenance and file_format != "manifest":
        write_json(path.with_name(f"{path.name}.provenance.json"), provenance)


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("a split must hold at least one video")
    for sample in samples:
        for turn in sample.turns:
            if not is_inside(turn.time_s, sample):
                raise ValueError(
                    f"video {sample.video_id}: the turn {turn.text!r} at {turn.time_s:g} s is outside the video"
                )
        if list(sample.turns) != sorted(sample.turns, key=turn_order):
            raise ValueError(f"video {sample.video_id}: its turns must be in order of time")
        if sum(other.video_id == sample.video_id for other in samples) > 1:
            raise ValueError(f"two videos share the video_id {sample.video_id}; rename one of them")


def _omit(sample: Sample, omit: Collection[OptionalField]) -> Sample:
    turns = sample.turns
    if "cause" in omit:
        turns = tuple(replace(turn, cause=None) for turn in turns)
    if "updates" in omit:
        turns = tuple(turn for turn in turns if turn.role != "update")
        sample = replace(sample, initial_state={})
    return replace(sample, turns=turns, video_path=None if "video_path" in omit else sample.video_path)


def _listed(sample: Sample, name: str | None, folder: Path) -> dict[str, Any]:
    video_path = None if sample.video_path is None else sample.video_path.resolve()
    if video_path is not None and video_path.is_relative_to(folder):
        video_path = video_path.relative_to(folder)
    start = {} if sample.start_s is None else {"start_s": sample.start_s}
    turns = [{name: value for name, value in asdict(turn).items() if value is not None} for turn in sample.turns]
    return {
        "video_id": sample.video_id,
        "video_path": None if video_path is None else name or video_path.as_posix(),
        **start,
        "fps": sample.fps,
        "num_frames": sample.num_frames,
        "goal": sample.goal,
        "steps": [asdict(step) for step in sample.steps],
        "initial_state": dict(sample.initial_state),
        "turns": turns,
    }


def _published(sample: Sample, file_format: FileFormat) -> dict[str, Any]:
    """Return a published record that loads as exactly this sample."""
    cannot_hold = f"video {sample.video_id}: the {file_format} format cannot hold"
    has_updates = any(turn.role == "update" for turn in sample.turns) or bool(sample.initial_state)
    is_present: dict[OptionalField, bool] = {
        "video_path": sample.video_path is not None,
        "cause": any(turn.cause is not None for turn in sample.turns),
        "updates": file_format == "proassist" and has_updates,
    }
    for field, found in is_present.items():
        if found:
            raise UnsupportedFieldError(f"{cannot_hold} {OPTIONAL_FIELDS[field]}", field)
    record = _dst_clip(sample) if file_format == "dst" else _dialogue(sample)
    try:
        read = read_published(json.loads(to_json(record)))
    except ValueError as error:
        raise ValueError(f"video {sample.video_id} does not fit the {file_format} format: {error}") from error
    for name in _FIELDS:
        if getattr(read, name) != getattr(sample, name):
            raise ValueError(
                f"{cannot_hold} its {name} {getattr(sample, name)!r}; it would load as {getattr(read, name)!r}; "
                "write a manifest"
            )
    if read.start_s != (sample.start_s or 0.0):
        raise ValueError(
            f"{cannot_hold} its start_s {sample.start_s!r}, which is not a frame of its file at {sample.fps:g} frames "
            "per second; write a manifest"
        )
    for wanted, got in zip(sample.turns, read.turns, strict=True):
        if wanted != got:
            raise ValueError(
                f"{cannot_hold} the {wanted.role} turn {wanted.text!r} at {wanted.time_s!r} s; it would load as "
                f"{got.text!r} at {got.time_s!r} s; write a manifest"
            )
    return record


def _extent(sample: Sample) -> dict[str, Any]:
    start = _start_frame(sample)
    return {
        "video_uid": sample.video_id,
        "fps": sample.fps,
        "start_frame_idx": start,
        "end_frame_idx": start + sample.num_frames,
    }


def _dst_clip(sample: Sample) -> dict[str, Any]:
    times_s: dict[str, list[float]] = {}
    for turn in sample.turns:
        if turn.role == "update":
            times_s.setdefault(str(parse_update(turn.text)), []).append((sample.start_s or 0.0) + turn.time_s)
    return _extent(sample) | {
        "inferred_goal": sample.goal,
        "dst": [
            {
                "type": "step",
                **asdict(step),
                "start_ts": min(times_s.get(f"{step.id}->start", ()), default=None),
                "end_ts": max(times_s.get(f"{step.id}->complete", ()), default=None),
            }
            for step in sample.steps
        ],
        "initial_dst_state": dict(sample.initial_state),
        "conversation": list(_dst_turns(sample)),
    }


def _dst_turns(sample: Sample) -> Iterator[dict[str, Any]]:
    start_s = sample.start_s or 0.0
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    for turn in sample.turns:
        if turn.role != "update":
            yield {"role": turn.role, "content": turn.text, "time": start_s + turn.time_s}
            continue
        update = parse_update(turn.text)
        if update is None:
            raise ValueError(f"video {sample.video_id}: the update {turn.text!r} must have the form S3->start")
        change = {"id": update.step_id, "transition": update.transition}
        yield {"role": "DST_UPDATE", "content": [change], "time": start_s + turn.time_s, "dst_state": dict(state)}
        state = apply_update(state, turn.text).state


def _dialogue(sample: Sample) -> dict[str, Any]:
    recipe = "\n".join(f"{number}. {step.name}" for number, step in enumerate(sample.steps, start=1))
    return _extent(sample) | {
        "metadata": {"task_goal": sample.goal, "knowledge": recipe},
        "conversation": list(_dialogue_turns(sample)),
    }


def _dialogue_turns(sample: Sample) -> Iterator[dict[str, Any]]:
    """Yield the ``frames``, ``user`` and ``assistant`` entries of a dialogue.

    An assistant's answer follows the image of its frame; a user turn without an answer precedes it. For answers at
    frames 3 and 5 of 8: ``frames 0..4``, answer, ``frames 4..6``, answer, ``frames 6..8`` (half-open).
    """
    start_s, start = sample.start_s or 0.0, _start_frame(sample)
    seen = start
    for frame, group in groupby(sample.turns, key=lambda turn: start + frame_at(turn.time_s, sample.fps)):
        turns: list[Turn] = list(group)
        end = frame + any(turn.role == "assistant" for turn in turns)
        if end > seen:
            yield {"role": "frames", "start": seen, "end": end}
            seen = end
        for turn in turns:
            yield {"role": turn.role, "content": turn.text, "time": start_s + turn.time_s}
    if start + sample.num_frames > seen:
        yield {"role": "frames", "start": seen, "end": start + sample.num_frames}


def _start_frame(sample: Sample) -> int:
    return frame_at(sample.start_s or 0.0, sample.fps)

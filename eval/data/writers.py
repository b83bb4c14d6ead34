"""Writes samples in the four formats that ``eval.data.loading`` reads.

A written split loads again unchanged: every record is read back before the file is written, and a value that a format
cannot hold raises ``ValueError``. A sample that is a whole file becomes a
DST or ProAssist clip from frame 0.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, get_args

from stepscope.engine.dialogue import apply_update, initial_state, parse_update
from stepscope.engine.io.files import atomic_write, to_json, write_json
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.records import frame_at
from stepscope.eval.data.benchmarks import format_gold
from stepscope.eval.data.loading import read_listed, read_published
from stepscope.eval.data.samples import Sample, Turn, is_inside, turn_order

FileFormat = Literal["manifest", "dst", "proassist", "proactive-videoqa"]
OptionalField = Literal["video_path", "cause", "spans", "updates", "task"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
OPTIONAL_FIELDS: Final[dict[OptionalField, str]] = {
    "video_path": "the video's file",
    "cause": "the reason why a turn is hard",
    "spans": "the end of reply spans",
    "updates": "state updates",
    "task": "goal and steps",
}
"""Fields that some formats cannot hold and that ``omit`` can leave out, with their descriptions."""
_FIELDS = ("video_id", "video_path", "fps", "num_frames", "goal", "steps", "initial_state", "after")


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
        path: The file. It stores videos below its folder as relative paths and all other videos as absolute
            paths.
        samples: Samples in the order to write.
        file_format: Our manifest (one object), DST training clips (a list), ProAssist dialogues (JSON lines) or gold
            answers of ProactiveVideoQA (a list).
        omit: Fields to leave out because the format cannot hold them; ``updates`` includes the initial state, and
            ``task`` the updates.
        videos: Path to store for a video file, instead of its own.
        provenance: Origin of the samples. A manifest stores it in the field ``provenance``, the published formats
            in ``<path>.provenance.json``.

    Raises:
        UnsupportedFieldError: The format cannot hold a field that ``omit`` can leave out.
        ValueError: The format cannot hold a sample; the message names the video and the value.
    """
    _check(samples)
    kept = [_omit(sample, omit) for sample in samples]
    names = [_name_video(sample, videos or {}, path.resolve().parent) for sample in kept]
    if file_format == "manifest":
        listed = [_listed(sample, name) for sample, name in zip(kept, names, strict=True)]
        for record in listed:
            try:
                read_listed(json.loads(to_json(record)))
            except ValueError as error:
                raise ValueError(f"video {record['video_id']}: {error}") from error
        text = to_json({**({"provenance": provenance} if provenance else {}), "videos": listed}, indent=1)
    else:
        records = [to_json(_published(sample, file_format, name)) for sample, name in zip(kept, names, strict=True)]
        lines, listed_lines = "\n".join(records), ",\n".join(records)
        text = lines if WRITTEN_FORMATS[file_format].suffix == ".jsonl" else f"[{listed_lines}]"
    with atomic_write(path) as file:
        file.write(text + "\n")
    if provenance and file_format != "manifest":
        write_json(path.with_name(f"{path.name}.provenance.json"), provenance)


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("a split must hold at least one video")
    seen = set[str]()
    for sample in samples:
        for turn in sample.turns:
            if not is_inside(turn.time_s, sample):
                raise ValueError(
                    f"video {sample.video_id}: the turn {turn.text!r} at {turn.time_s:g} s is outside the video"
                )
        if list(sample.turns) != sorted(sample.turns, key=turn_order):
            raise ValueError(f"video {sample.video_id}: its turns must be in order of time")
        if sample.video_id in seen:
            raise ValueError(f"two videos share the video_id {sample.video_id}; rename one of them")
        seen.add(sample.video_id)


def _omit(sample: Sample, omit: Collection[OptionalField]) -> Sample:
    turns = sample.turns
    if "cause" in omit:
        turns = tuple(replace(turn, cause=None) for turn in turns)
    if "spans" in omit:
        turns = tuple(turn.as_instant() for turn in turns)
    if "updates" in omit or "task" in omit:
        turns = tuple(turn for turn in turns if turn.role != "update")
        sample = replace(sample, initial_state={})
    if "task" in omit:
        sample = replace(sample, goal="", steps=(), after={})
    return replace(sample, turns=turns, video_path=None if "video_path" in omit else sample.video_path)


def _name_video(sample: Sample, videos: Mapping[Path, str], folder: Path) -> str | None:
    """Return the path to store for a sample's video file; None without a file."""
    if sample.video_path is None or sample.video_path in videos:
        return videos.get(sample.video_path) if sample.video_path is not None else None
    name = name_file(sample.video_path)
    path = Path(name)
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else name


def _listed(sample: Sample, video: str | None) -> dict[str, Any]:
    start = {} if sample.start_s is None else {"start_s": sample.start_s}
    turns = [{name: value for name, value in asdict(turn).items() if value is not None} for turn in sample.turns]
    return {
        "video_id": sample.video_id,
        "video_path": video,
        **start,
        "fps": sample.fps,
        "num_frames": sample.num_frames,
        "goal": sample.goal,
        "steps": [
            {**asdict(step), **({"after": list(sample.after[step.id])} if step.id in sample.after else {})}
            for step in sample.steps
        ],
        "initial_state": dict(sample.initial_state),
        "turns": turns,
        **({} if sample.has_reference else {"has_reference": False}),
    }


def _published(sample: Sample, file_format: FileFormat, video: str | None) -> dict[str, Any]:
    """Return a published record that loads as exactly this sample; ``video`` is the path to store for its file."""
    cannot_hold = f"video {sample.video_id}: the {file_format} format cannot hold"
    written = WRITTEN_FORMATS[file_format]
    for field in _find_unsupported(sample, written.lacks):
        raise UnsupportedFieldError(f"{cannot_hold} {OPTIONAL_FIELDS[field]}", field)
    record = written.format(sample, video)
    try:
        read = read_published(json.loads(to_json(record)))
    except ValueError as error:
        raise ValueError(f"video {sample.video_id} does not fit the {file_format} format: {error}") from error
    stored = replace(sample, video_path=read.video_path)  # a path is written as the caller names it
    for name in _FIELDS:
        if getattr(read, name) != getattr(stored, name):
            raise ValueError(
                f"{cannot_hold} its {name} {getattr(sample, name)!r}; it would load as {getattr(read, name)!r}; "
                "write a manifest"
            )
    if (read.start_s or 0.0) != (sample.start_s or 0.0):
        at_frame = f", which is not a frame of its file at {sample.fps:g} frames per second"
        raise ValueError(
            f"{cannot_hold} its start_s {sample.start_s!r}{'' if read.start_s is None else at_frame}; write a manifest"
        )
    for wanted, got in zip(sample.turns, read.turns, strict=True):
        if wanted != got:
            raise ValueError(
                f"{cannot_hold} the {wanted.role} turn {wanted.text!r} at {wanted.time_s!r} s; it would load as "
                f"{got.text!r} at {got.time_s!r} s; write a manifest"
            )
    return record


def _find_unsupported(sample: Sample, lacks: Collection[OptionalField]) -> Iterator[OptionalField]:
    """Yield the fields that a sample has and that its format ``lacks``."""
    is_held: dict[OptionalField, bool] = {
        "video_path": sample.video_path is not None,
        "cause": any(turn.cause is not None for turn in sample.turns),
        "spans": any(turn.end_s is not None for turn in sample.turns),
        "updates": bool(sample.initial_state) or any(turn.role == "update" for turn in sample.turns),
        "task": bool(sample.goal or sample.steps),
    }
    yield from (field for field in OPTIONAL_FIELDS if field in lacks and is_held[field])


def _extent(sample: Sample) -> dict[str, Any]:
    start = _start_frame(sample)
    return {
        "video_uid": sample.video_id,
        "fps": sample.fps,
        "start_frame_idx": start,
        "end_frame_idx": start + sample.num_frames,
    }


def _dst_clip(sample: Sample, _: str | None) -> dict[str, Any]:
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


def _dialogue(sample: Sample, _: str | None) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFormat:
    """A format in which samples are written."""

    suffix: str
    format: Callable[[Sample, str | None], dict[str, Any]]
    """Returns the record of a sample, with the path to store for its video."""
    lacks: Collection[OptionalField] = ()
    """The fields that it cannot hold."""


WRITTEN_FORMATS: Final[Mapping[FileFormat, WrittenFormat]] = {
    "manifest": WrittenFormat(suffix=".json", format=_listed),
    "dst": WrittenFormat(suffix=".json", format=_dst_clip, lacks=("video_path", "cause", "spans")),
    "proassist": WrittenFormat(suffix=".jsonl", format=_dialogue, lacks=("video_path", "cause", "spans", "updates")),
    "proactive-videoqa": WrittenFormat(suffix=".json", format=format_gold, lacks=("cause", "updates", "task")),
}

"""Reads the samples of a split from a file in one of three formats, which are recognised by content.

1. Our manifest is one JSON object per split, ``{"videos": [...]}``. Each video has the fields of ``Sample``:
   ``video_path`` is relative to the manifest, turns are in seconds, and ``start_s`` marks a part of a file. Other
   fields, such as ``provenance`` (``app.exports.corrected_split``), are ignored.
2. DST clips (``eval.data.dst_clips``) and
3. ProAssist dialogues (``eval.data.proassist``) are one JSON object, a list, or JSON lines. Each is a part of its
   video, and may name the file in ``video_path`` too.

A folder of videos (``eval.data.video_files``) supplies the file if a record names none, or a missing one. No record is
dropped silently. ``read_samples`` raises ``ValueError`` naming file, record, field and remedy. ``read_split`` returns
an entry with the reason.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from engine.dialogue import initial_state, parse_update
from engine.records import Step
from eval.data.clips import PublishedClip, read_extent
from eval.data.dst_clips import read_clip
from eval.data.json_fields import Fields
from eval.data.proassist import read_dialogue
from eval.data.sample_ids import SampleIds
from eval.data.samples import ROLE_ORDER, InvalidSample, Role, Sample, Split, Turn, is_inside, turn_order
from eval.data.video_files import VideoFolder

_FORMATS = (
    'write an object with a list "videos" (a manifest), or objects with "dst" (DST clips) or with "conversation" and '
    '"metadata" (ProAssist dialogues)'
)


class SampleWarning(UserWarning):
    """Turns outside their video were left out of a sample."""


def read_samples(path: str | Path, *, strict: bool = True, videos: Path | None = None) -> list[Sample]:
    """Read all samples of a file in any of the three formats, with turns in seconds from the start of the sample.

    Args:
        path: The file.
        strict: Whether turns outside their video are an error. With False they are left out, and each such sample
            issues one ``SampleWarning`` that lists them.
        videos: Folder with the videos of records whose ``video_path`` is missing or names a missing file.

    Raises:
        ValueError: A record is invalid; the message names file, record, field and remedy.
    """
    source = Path(path)
    records = _read_records(source)
    ids, folder = SampleIds(_published_ids(records)), None if videos is None else VideoFolder(videos)
    return [_read_sample(record, source, strict=strict, ids=ids, videos=folder) for record in records]


def read_split(path: str | Path, *, videos: Path | None = None) -> Split:
    """Read a split with one entry per record: a sample, or the reason why the record is invalid.

    ``videos`` is a folder with the videos of records whose ``video_path`` is missing or names a missing file. Raises
    ``ValueError`` if the file has none of the three formats, or if ``videos`` is not a folder.
    """
    source = Path(path)
    records = _read_records(source)
    ids, folder = SampleIds(_published_ids(records)), None if videos is None else VideoFolder(videos)
    entries: dict[str, Sample | InvalidSample] = {}
    for record in records:
        try:
            sample = _read_sample(record, source, strict=True, ids=ids, videos=folder)
            entries[sample.video_id] = sample
        except ValueError as error:
            names = (record.video_id, record.name, f"{record.name}, record {record.number}")
            video_id = next(name for name in names if name is not None and name not in entries)
            entries[video_id] = InvalidSample(video_id=video_id, reason=str(error))
            ids.reserve(video_id)
    return Split(path=source, entries=tuple(entries.values()), digest=digest_split(source))


def digest_split(path: Path) -> str:
    """Return the SHA-256 of a split's file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One record of the file, not validated."""

    name: str
    """Name in messages, such as ``line 3``."""
    number: int
    """Position in the file."""
    value: object = None
    """JSON value."""
    video_id: str | None = None
    """Id of the video, if the record has one."""
    is_listed: bool = False
    """Whether it is a video of a manifest; if not, it is a published clip."""
    problem: str = ""
    """Reason why the line is not JSON; empty if it is."""


def _read_sample(record: _Record, source: Path, *, strict: bool, ids: SampleIds, videos: VideoFolder | None) -> Sample:
    """Read one record. Errors and warnings name the file and the record."""
    place = f"{source}, {record.name}"
    if record.problem:
        raise ValueError(f"{place}: {record.problem}; write one JSON object per line")
    try:
        clip = None if record.is_listed else _read_published(record.value)
        sample = _to_clip_time(clip, source.parent) if clip else _sample(record.value, source.parent)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    outside = [turn for turn in sample.turns if not is_inside(turn.time_s, sample)]
    if outside:
        listed = f"{place}: {_describe_outside(outside, sample, start_s=clip.extent.start_s if clip else 0.0)}"
        if strict:
            raise ValueError(f"{listed}; correct the times, or read with strict=False to leave such turns out")
        warnings.warn(f"{listed}; left out", SampleWarning, stacklevel=3)
        sample = replace(sample, turns=tuple(turn for turn in sample.turns if turn not in outside))
    try:
        if videos is not None and sample.video_path is None:
            found = videos.find((sample.video_id, *(clip.extent.file_names if clip else ())))
            sample = replace(sample, video_path=found)
        elif videos is not None and sample.video_path is not None and not sample.video_path.is_file():
            path = sample.video_path
            written = path.relative_to(source.parent) if path.is_relative_to(source.parent) else path
            sample = replace(sample, video_path=videos.find_file(written) or path)
        return ids.assign(sample, clip.extent if clip else None)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _published_ids(records: Iterable[_Record]) -> frozenset[str]:
    """Return the ids in the published records, without those of invalid records."""
    ids = set()
    for record in records:
        if isinstance(record.value, dict) and not record.is_listed:
            with suppress(ValueError):  # reported when the record is read
                ids.add(read_extent(Fields(record=record.value)).video_id)
    return frozenset(ids)


def _read_records(source: Path) -> list[_Record]:
    try:
        text = source.read_text(encoding="utf-8")
        lines = _parse_lines(text)
        content = None if lines else json.loads(text)
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {source}") from error
    except OSError as error:
        raise ValueError(f"{source} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} cannot be read as JSON or JSON lines: {error}") from error
    if lines:
        return lines
    if isinstance(content, dict) and isinstance(content.get("videos"), list):
        videos = enumerate(content["videos"])
        return [_record(value, number, field="video_id", is_listed=True) for number, value in videos]
    clips = content if isinstance(content, list) else [content]
    if not clips:
        raise ValueError(f"{source} is an empty list; {_FORMATS}")
    return [_record(value, number, field="video_uid") for number, value in enumerate(clips)]


def _parse_lines(text: str) -> list[_Record]:
    """Parse JSON lines. Return an empty list for fewer than two lines, or if the first is not a JSON object."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    records: list[_Record] = []
    for number, line in lines if len(lines) > 1 else []:
        value, problem = None, ""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = str(error)
        if not records and not isinstance(value, dict):
            return []
        records.append(_Record(name=f"line {number}", number=number, value=value, problem=problem))
    return records


def _record(value: object, number: int, *, field: str, is_listed: bool = False) -> _Record:
    found = value.get(field) if isinstance(value, dict) else None
    video_id = found if isinstance(found, str) and found else None
    name = f"video number {number}" if video_id is None else f"video {video_id}"
    return _Record(name=name, number=number, value=value, video_id=video_id, is_listed=is_listed)


def _describe_outside(outside: Sequence[Turn], sample: Sample, *, start_s: float) -> str:
    turns = ", ".join(f"the time {start_s + turn.time_s:g} of the {turn.role} turn {turn.text!r}" for turn in outside)
    begins = f", which begins at {start_s:g} s" if start_s else ""
    return f"{turns} lies outside the video of {sample.num_frames / sample.fps:g} s{begins}"


def read_published(value: object) -> Sample:
    """Read one published record from its JSON value. Raises ``ValueError`` naming the field."""
    return _to_clip_time(_read_published(value), Path())


def _read_published(value: object) -> PublishedClip:
    if not isinstance(value, dict):
        raise ValueError(f"a record must be a JSON object; {_FORMATS}")
    fields = Fields(record=value)
    if fields.has("dst") or fields.has("inferred_goal"):
        return read_clip(fields)
    if fields.has("conversation"):
        return read_dialogue(fields)
    raise ValueError(f"has an unknown format; {_FORMATS}")


def _to_clip_time(clip: PublishedClip, folder: Path) -> Sample:
    """Convert a published clip to a sample, with sorted turns; a relative ``video_path`` is in ``folder``."""
    extent = clip.extent
    turns = sorted(clip.turns, key=lambda turn: (turn.time_s, ROLE_ORDER[turn.role]))
    return Sample(
        video_id=extent.video_id,
        video_path=None if extent.video_path is None else folder / extent.video_path,
        fps=extent.fps,
        num_frames=extent.num_frames,
        goal=clip.goal,
        steps=clip.steps,
        turns=tuple(Turn(time_s=clip.clip_time_s(turn), role=turn.role, text=turn.text) for turn in turns),
        initial_state=dict(clip.initial_state),
        start_s=extent.start_s,
    )


def _sample(value: object, folder: Path) -> Sample:
    if not isinstance(value, dict):
        raise ValueError("a video must be a JSON object")
    fields = Fields(record=value)
    num_frames = fields.read_index("num_frames")
    if num_frames < 1:
        raise fields.error("num_frames", "must be at least 1")
    steps = tuple(Step(id=step.read_text("id"), name=step.read_text("name")) for step in fields.read_objects("steps"))
    states = fields.read_object("initial_state").record if fields.has("initial_state") else {}
    given = {step_id: str(state) for step_id, state in states.items()}
    initial_state(steps, given)
    turns = [_turn(turn, [step.id for step in steps]) for turn in fields.read_objects("turns")]
    return Sample(
        video_id=fields.read_text("video_id"),
        video_path=folder / fields.read_text("video_path") if fields.has("video_path") else None,
        fps=fields.read_fps(),
        num_frames=num_frames,
        goal=fields.read_text("goal", may_be_blank=True),
        steps=steps,
        turns=tuple(sorted(turns, key=turn_order)),
        initial_state=given,
        start_s=fields.read_number("start_s", minimum=0) if fields.has("start_s") else None,
    )


def _turn(fields: Fields, ids: Sequence[str]) -> Turn:
    role: Role = fields.read_choice("role", get_args(Role))  # type: ignore[assignment]
    text = fields.read_text("text")
    update = parse_update(text) if role == "update" else None
    if role == "update" and (update is None or update.step_id not in ids):
        known = ", ".join(ids) or "no step"
        raise fields.error("text", f"must have the form S3->start or S3->complete, of a step among {known}")
    cause = fields.read_text("cause") if fields.has("cause") else None
    return Turn(time_s=fields.read_number("time_s"), role=role, text=text, cause=cause)

"""Makes the record of a video from its rows, those of a table or the objects of a JSON file, by a mapping."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from stepscope.engine.io.json_records import short_repr
from stepscope.eval.data.loading import SUFFIXES
from stepscope.eval.data.samples import Role, Turn
from stepscope.eval.datasets.mappings import DatasetMapping, find_text, find_value, has_flag, to_seconds
from stepscope.eval.datasets.segments import AnnotatedVideo, Segment, normalise
from stepscope.eval.runs.imports.system_output import file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a video."""

    place: str
    """Its place in the file, for messages, such as ``line 3``."""
    fields: Mapping[str, Any]
    level: int = 1
    """Depth in a hierarchy, from 1."""


def make_video(
    fields: Mapping[str, Any], rows: Sequence[Row], mapping: DatasetMapping, *, level: int = 1
) -> AnnotatedVideo:
    """Return the annotations of a video at a level of its hierarchy; those that cannot be used have a ``problem``."""
    video_id = _strip_suffix(find_text(fields, mapping.video) or find_text(fields, "@file"))
    goal = find_text(fields, mapping.goal)
    duration = find_text(fields, mapping.duration)
    left_out = Counter[str]()
    video = AnnotatedVideo(
        video_id=video_id,
        file_names=tuple(
            find_text({**fields, "video": video_id}, name) for name in (*mapping.video_file.split("|"), "{video}")
        ),
        goal=mapping.goals.get(goal, goal),
        recipe=normalise(find_text(fields, mapping.recipe) if mapping.recipe else goal),
        subset=find_text(fields, mapping.subset).lower(),
        left_out=left_out,
    )
    place = f"video {video_id}"
    corrected = [row.fields for row in rows if find_text(row.fields, mapping.corrected_by)]
    causes = {find_text(one, mapping.corrected_by): _find_cause(one, mapping) for one in corrected}
    segments, turns = list[Segment](), list[Turn]()
    try:
        length_s = to_seconds(duration, replace(mapping, unit="s")) if duration else 0.0
        video = replace(video, duration_s=length_s if length_s > 0 else None)
        for row in rows:
            place = row.place
            if has_flag(row.fields, mapping.messages):
                turns += _make_turn(row.fields, mapping, causes)
            elif reason := _find_reason(row, mapping, level):
                left_out[reason] += 1
            else:
                segments.append(_make_segment(row.fields, mapping))
    except ValueError as error:
        return replace(video, problem=f"{place}: {error}")
    if mapping.start and not mapping.end:
        segments = list(_end_at_next(segments, video.duration_s))
    return replace(video, segments=tuple(segments), turns=tuple(turns))


def _strip_suffix(name: str) -> str:
    """Return the name of a file without folder and suffix: ``kettle`` of ``videos/kettle.mp4``. Ids stay."""
    path = PurePosixPath(file_name(name))
    return path.stem if path.suffix.lower() in SUFFIXES else name


def _find_reason(row: Row, mapping: DatasetMapping, level: int) -> str:
    """Return why a row is no step of the level; empty if it is one."""
    depth = row.level
    if mapping.level:
        name = find_text(row.fields, mapping.level)
        depth = mapping.levels.index(name) + 1 if name in mapping.levels else 0
    if depth == 0 or has_flag(row.fields, mapping.events):
        return "no step"
    if depth != level:
        return "of another level"
    if find_text(row.fields, mapping.label) in mapping.background:
        return "background"
    return "irrelevant" if has_flag(row.fields, mapping.irrelevant) else ""


def _make_segment(fields: Mapping[str, Any], mapping: DatasetMapping) -> Segment:
    label, step_id = find_text(fields, mapping.label), find_text(fields, mapping.step)
    label = label or (step_id and f"step {step_id}")
    if not label:
        raise ValueError(f"a segment has no {_name_fields(mapping.label)}")
    start_s = _read_time(fields, mapping.start or mapping.end, mapping, is_end=not mapping.start)
    end_s = _read_time(fields, mapping.end, mapping, is_end=True) if mapping.end else start_s
    is_done = start_s >= 0 and end_s >= 0
    if is_done and end_s < start_s:
        raise ValueError(f"{short_repr(label)} ends at {end_s:g} s, before its start at {start_s:g} s; swap the times")
    return Segment(
        label=label,
        start_s=start_s if is_done else -1.0,
        end_s=end_s if is_done else -1.0,
        step_id=step_id,
        cause=_find_cause(fields, mapping) if has_flag(fields, mapping.wrong) else "",
        is_continued=has_flag(fields, mapping.continued),
    )


def _name_fields(names: str) -> str:
    """Return the alternatives of a mapping as words: ``end|end_s`` is ``end or end_s``."""
    return " or ".join(names.split("|"))


def _read_time(fields: Mapping[str, Any], name: str, mapping: DatasetMapping, *, is_end: bool = False) -> float:
    value = find_value(fields, name)
    if value is None:
        raise ValueError(f"a segment has no {_name_fields(name)}")
    return to_seconds(value, mapping, is_end=is_end)


def _find_cause(fields: Mapping[str, Any], mapping: DatasetMapping) -> str:
    """Return what is wrong in a row that has an error."""
    return find_text(fields, mapping.cause) or "error"


def _make_turn(fields: Mapping[str, Any], mapping: DatasetMapping, causes: Mapping[str, str]) -> list[Turn]:
    """Return the message of a row, with the error that it corrects by ``causes``; none if it has no words."""
    text = find_text(fields, mapping.text)
    role: Role = "assistant" if has_flag(fields, mapping.assistant) else "user"
    time_s = _read_time(fields, mapping.start, mapping)
    cause = causes.get(find_text(fields, "id")) if role == "assistant" else None
    return [Turn(time_s=time_s, role=role, text=text, cause=cause)] if text and time_s >= 0 else []


def _end_at_next(segments: Sequence[Segment], duration_s: float | None) -> Iterator[Segment]:
    """Yield segments that end where the next one starts, the last one at the end of the video."""
    ordered = sorted(segments, key=lambda segment: segment.start_s)
    for segment, following in pairwise(ordered):
        yield replace(segment, end_s=following.start_s)
    for segment in ordered[-1:]:
        yield replace(segment, end_s=max(segment.start_s, duration_s or 0.0))

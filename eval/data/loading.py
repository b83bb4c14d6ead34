"""Reads the samples of a split from a file in one of the formats of docs/data-formats.md, recognised by content.

No record is dropped silently: ``read_samples`` raises ``ValueError`` naming file, record, field and remedy;
``read_split`` returns an entry with the reason.
"""

import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any, Final, get_args

from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.io.files import digest_file, load_json, load_json_lines, read_text
from stepscope.engine.io.hub_cache import parse_address
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.records import Step
from stepscope.eval.data.clips import Extent, read_extent
from stepscope.eval.data.formats import ReadSamples, describe_formats, find_format
from stepscope.eval.data.json_fields import Fields, read_provenance_beside
from stepscope.eval.data.samples import SPAN_FIELDS, InvalidSample, Role, Sample, Split, Turn, is_inside, turn_order


class SampleWarning(UserWarning):
    """Turns outside their video were left out of a sample."""


def read_samples(path: str | Path, *, strict: bool = True, videos: Path | None = None) -> list[Sample]:
    """Read all samples of a file in any of the formats, with turns in seconds from the start of the sample.

    Args:
        path: The file.
        strict: Whether turns outside their video are an error. With False they are left out, and each such sample
            issues one ``SampleWarning`` that lists them.
        videos: Folder with the videos of records whose ``video_path`` is missing or names a missing file.

    Raises:
        ValueError: A record is invalid; the message names file, record, field and remedy.
    """
    file = _SplitFile(Path(path), strict=strict, videos=videos)
    return [sample for record in file.records for sample in file.read(record)]


def read_split(path: str | Path, *, videos: Path | None = None) -> Split:
    """Read a split with the samples of each record, or the reason why it is invalid. Most records are one sample.

    ``videos`` is a folder with the videos of records whose ``video_path`` is missing or names a missing file. Raises
    ``ValueError`` if the file has none of the formats, or if ``videos`` is not a folder.
    """
    source = Path(path)
    file = _SplitFile(source, strict=True, videos=videos)
    entries: dict[str, Sample | InvalidSample] = {}
    for record in file.records:
        try:
            entries |= {sample.video_id: sample for sample in file.read(record)}
        except ValueError as error:
            names = (record.video_id, record.name, f"{record.name}, record {record.number}")
            video_id = next(name for name in names if name is not None and name not in entries)
            entries[video_id] = InvalidSample(video_id=video_id, reason=str(error))
            file.ids.reserve(video_id)
    provenance = file.provenance or read_provenance_beside(source)
    return Split(path=source, entries=tuple(entries.values()), digest=digest_file(source), provenance=provenance)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One record of the file, not validated."""

    name: str
    """Name in messages, such as ``line 3``."""
    number: int
    value: object = None
    video_id: str | None = None
    is_listed: bool = False
    """Whether it is a video of a manifest; if not, it is a published clip."""
    problem: str = ""
    """Reason why the line is not JSON; empty if it is."""


class _SplitFile:
    """The records of one file, and their samples."""

    def __init__(self, source: Path, *, strict: bool, videos: Path | None) -> None:
        self.records, self.provenance = _read_records(source)
        self.ids = SampleIds(_published_ids(self.records))
        self._source, self._strict = source, strict
        self._videos = None if videos is None else VideoFolder(videos)

    def read(self, record: _Record) -> list[Sample]:
        """Return the samples of a record. Errors and warnings name the file and the record."""
        place = f"{self._source}, {record.name}"
        if record.problem:
            raise ValueError(f"{place}: {record.problem}; write one JSON object per line")
        try:
            if record.is_listed:
                return [self._finish(read_listed(record.value), None, place)]
            published = _published(record.value, self._source.parent)
            return [self._finish(sample, extent, place) for sample, extent in published]
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error

    def _finish(self, sample: Sample, extent: Extent | None, place: str) -> Sample:
        sample = self._leave_out_outside(sample, place, start_s=extent.start_s if extent else 0.0)
        return self.ids.assign(self._find_file(sample, extent.file_names if extent else ()), extent)

    def _leave_out_outside(self, sample: Sample, place: str, *, start_s: float) -> Sample:
        outside = [turn for turn in sample.turns if not is_inside(turn.time_s, sample)]
        if not outside:
            return sample
        listed = _describe_outside(outside, sample, start_s=start_s)
        if self._strict:
            raise ValueError(f"{listed}; correct the times, or read with strict=False to leave such turns out")
        warnings.warn(f"{place}: {listed}; left out", SampleWarning, stacklevel=5)
        return replace(sample, turns=tuple(turn for turn in sample.turns if turn not in outside))

    def _find_file(self, sample: Sample, names: Sequence[str]) -> Sample:
        """Return the sample with the path of its file beside the split, or else in the folder of videos."""
        folder = self._source.parent
        path = None if sample.video_path is None else folder / _place(sample.video_path)
        if self._videos is not None and path is None:
            path = self._videos.find((sample.video_id, *names))
        elif self._videos is not None and path is not None and not os.path.isfile(path):
            path = self._videos.find_file(path.relative_to(folder) if path.is_relative_to(folder) else path) or path
        return replace(sample, video_path=path)


def _place(path: Path) -> Path:
    """Return where the cache has a file of the Hub, downloaded or not; any other path as it is."""
    return parse_address("/".join(["hf:/", *path.parts[1:]])).path if path.parts[:1] == ("hf:",) else path


def _published_ids(records: Iterable[_Record]) -> frozenset[str]:
    """Return the ids in the published records, without those of invalid records."""
    ids = set()
    for record in records:
        if isinstance(record.value, dict) and not record.is_listed:
            with suppress(ValueError):  # reported when the record is read
                ids.add(read_extent(Fields(record=record.value)).video_id)
    return frozenset(ids)


def _read_records(source: Path) -> tuple[list[_Record], Mapping[str, Any]]:
    """Return the records of a file, and the provenance of a manifest."""
    try:
        lines, content = _parse(read_text(source))
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {source}") from error
    except OSError as error:
        raise ValueError(f"{source} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{source} cannot be read as JSON or JSON lines: {error}") from error
    if lines:
        return lines, {}
    if isinstance(content, dict) and isinstance(content.get("videos"), list):
        videos = enumerate(content["videos"])
        provenance = content.get("provenance")
        records = [_record(value, number, field="video_id", is_listed=True) for number, value in videos]
        return records, provenance if isinstance(provenance, dict) else {}
    clips = content if isinstance(content, list) else [content]
    if not clips:
        raise ValueError(f"{source} is an empty list; {describe_formats()}")
    return [_record(value, number, field="video_uid") for number, value in enumerate(clips)], {}


def _parse(text: str) -> tuple[list[_Record], object]:
    """Return the records of a text of several JSON values, the first of which is an object; else its only value."""
    try:
        return [], load_json(text)
    except ValueError:
        records: list[_Record] = []
        for number, value, problem in load_json_lines(text):
            if not records and not isinstance(value, dict):
                raise
            records.append(_Record(name=f"line {number}", number=number, value=value, problem=problem))
        if len(records) < 2:
            raise
        return records, None


def _record(value: object, number: int, *, field: str, is_listed: bool = False) -> _Record:
    stated = (value.get(field) or value.get("question_id")) if isinstance(value, dict) else None
    video_id = stated if isinstance(stated, str) and stated else None
    name = f"video number {number}" if video_id is None else f"video {video_id}"
    return _Record(name=name, number=number, value=value, video_id=video_id, is_listed=is_listed)


def _describe_outside(outside: Sequence[Turn], sample: Sample, *, start_s: float) -> str:
    turns = ", ".join(f"the time {start_s + turn.time_s:g} of the {turn.role} turn {turn.text!r}" for turn in outside)
    begins = f", which begins at {start_s:g} s" if start_s else ""
    return f"{turns} lies outside the video of {sample.num_frames / sample.fps:g} s{begins}"


def read_published(value: object) -> Sample:
    """Read a published record of one sample from its JSON value. Raises ``ValueError`` naming the field."""
    return _published(value, Path())[0][0]


def _published(value: object, folder: Path) -> ReadSamples:
    """Return the samples of a record of a split in ``folder``, with the path of its video as it is written."""
    if not isinstance(value, dict):
        raise ValueError(f"a record must be a JSON object; {describe_formats()}")
    fields = Fields(record=value)
    return find_format(fields).read(fields, folder)


def read_listed(value: object) -> Sample:
    """Read a video of a manifest, with its path as it is written. Raises ``ValueError`` naming the field."""
    if not isinstance(value, dict):
        raise ValueError("a video must be a JSON object")
    fields = Fields(record=value)
    num_frames = fields.read_index("num_frames")
    if num_frames < 1:
        raise fields.error("num_frames", "must be at least 1")
    fields.check_length("num_frames", num_frames, fields.read_fps())
    listed = fields.read_objects("steps")
    steps = tuple(Step(id=step.read_text("id"), name=step.read_text("name")) for step in listed)
    states = fields.read_object("initial_state", may_be_missing=True).record
    given = {step_id: str(state) for step_id, state in states.items()}
    initial_state(steps, given)
    ids = {step.id: step for step in steps}
    turns = [_turn(turn, ids) for turn in fields.read_objects("turns")]
    return Sample(
        video_id=fields.read_text("video_id"),
        video_path=Path(fields.read_text("video_path")) if fields.has("video_path") else None,
        fps=fields.read_fps(),
        num_frames=num_frames,
        goal=fields.read_text("goal", may_be_blank=True),
        steps=steps,
        turns=tuple(sorted(turns, key=turn_order)),
        initial_state=given,
        after=_read_order(listed, set(ids)),
        start_s=fields.read_number("start_s", minimum=0) if fields.has("start_s") else None,
        has_reference=fields.record.get("has_reference") is not False,
    )


def _read_order(listed: Sequence[Fields], ids: Set[str]) -> dict[str, tuple[str, ...]]:
    """Return the predecessors of each step that names some. Raises ``ValueError`` for an unknown one, or a cycle."""
    after = dict[str, tuple[str, ...]]()
    for step in listed:
        value = step.record.get("after", [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name in ids for name in value):
            raise step.error("after", f"must be a list of ids of steps; got {short_repr(value)}")
        if value:
            after[step.read_text("id")] = tuple(dict.fromkeys(value))
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        raise ValueError(f"steps.after has a cycle: {' -> '.join(error.args[1])}") from error
    return after


def _turn(fields: Fields, ids: Mapping[str, Step]) -> Turn:
    role: Role = fields.read_choice("role", get_args(Role))  # type: ignore[assignment]
    text = fields.read_text("text")
    update = parse_update(text) if role == "update" else None
    if role == "update" and (update is None or update.step_id not in ids):
        known = ", ".join(ids)[:200] or "no step"
        raise fields.error("text", f"must have the form S3->start or S3->complete, of a step among {known}")
    cause = fields.read_text("cause") if fields.has("cause") else None
    time_s = fields.read_number("time_s")
    return _with_span(Turn(time_s=time_s, role=role, text=text, cause=cause), fields)


def _with_span(turn: Turn, fields: Fields) -> Turn:
    """Return a turn with the reply span of its record, and the span of its evidence, as far as it names them.

    Raises ``ValueError`` for an end that is not after the turn's time, and for one of a turn of another role.
    """
    if turn.role != "assistant" and fields.has("end_s"):
        raise fields.error("end_s", "must be absent: only an assistant turn has a reply span")
    if fields.has("related_end_s") and not fields.has("end_s"):
        raise fields.error("related_end_s", "must come with end_s, the end of the reply span")
    if fields.has("related_start_s") and not fields.has("related_end_s"):
        raise fields.error("related_start_s", "must come with related_end_s, the end of the evidence")
    names = [name for name in SPAN_FIELDS if fields.has(name)]
    times: dict[str, Any] = {name: fields.read_number(name) for name in names}
    spanned = replace(turn, **times)
    if spanned.end_s is not None and spanned.end_s <= turn.time_s:
        raise fields.error("end_s", f"must be after time_s, {turn.time_s:g}")
    return replace(spanned, related_start_s=spanned.related_start_s or None)


class SampleIds:
    """The ids assigned so far in a split, whose records have the ids ``given``."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._taken: dict[str, Extent | None] = {}
        self._samples: list[Sample] = []

    def reserve(self, video_id: str) -> None:
        """Reserve the id of an invalid record."""
        self._taken[video_id] = None

    def assign(self, sample: Sample, extent: Extent | None) -> Sample:
        """Return the sample with a unique id; ``extent`` is None for a sample of a manifest.

        Raises ``ValueError`` for a duplicate id in a manifest, and for a duplicate clip.
        """
        if sample.video_id in self._taken:
            if extent is None or any(replace(other, video_id=sample.video_id) == sample for other in self._samples):
                raise ValueError(f"two videos share the video_id {sample.video_id}; rename one of them")
            candidates = _candidates(extent, has_other_frames=self._taken[sample.video_id] != extent)
            free = next(name for name in candidates if name not in self._taken and name not in self._given)
            sample = replace(sample, video_id=free)
        self._taken[sample.video_id] = extent
        self._samples.append(sample)
        return sample


def _candidates(extent: Extent, *, has_other_frames: bool) -> Iterator[str]:
    name = extent.video_id
    if has_other_frames:
        name += f"_{extent.start_frame}-{extent.start_frame + extent.num_frames}"
        yield name
    for number in count(2):
        yield f"{name}_{number}"


SUFFIXES: Final = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"})


class VideoFolder:
    """The video files of a folder and its subfolders, by name without suffix."""

    def __init__(self, path: Path) -> None:
        """List the files. Raises ``ValueError`` if ``path`` is not a folder."""
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder; name the folder of the videos")
        self._path = path
        self._found: defaultdict[str, list[Path]] = defaultdict(list)
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in SUFFIXES and file.is_file():
                self._found[file.stem].append(file)

    def find(self, names: Iterable[str]) -> Path:
        """Return the file of the first name that has one. Raises ``ValueError`` if there is none, or several."""
        tried = list(dict.fromkeys(names))
        path = self.find_named(tried)
        if path is not None:
            return path
        raise ValueError(
            f"no video in {self._path} is called {' or '.join(tried)} (ending in {', '.join(sorted(SUFFIXES))}); "
            "rename it, or name the file in video_path"
        )

    def find_named(self, names: Iterable[str]) -> Path | None:
        """Return the file of the first name that has one; None if there is none. Raises ``ValueError`` for several."""
        name = next((name for name in names if name in self._found), None)
        return None if name is None else self._only(self._found[name], name)

    def find_file(self, written: Path) -> Path | None:
        """Return the file for a path in a record; None if there is none. Raises ``ValueError`` if there are several."""
        candidate = self._path / written
        if not written.is_absolute() and ".." not in written.parts and os.path.isfile(candidate):
            return candidate
        files = [file for file in self._found.get(written.stem, []) if file.name == written.name]
        return self._only(files, written.name) if files else None

    def _only(self, files: Sequence[Path], name: str) -> Path:
        if len(files) > 1:
            listed = " and ".join(str(file.relative_to(self._path)) for file in files[:2])
            raise ValueError(
                f"{len(files)} videos in {self._path} are called {name}, such as {listed}; rename or remove all "
                "but one, or name the file in video_path"
            )
        return files[0]

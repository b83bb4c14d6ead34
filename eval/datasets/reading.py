"""Reads annotation files of any of the forms of docs/datasets.md, each recognised by its content."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from stepscope.engine.io.files import load_json, read_text
from stepscope.engine.io.json_records import reading
from stepscope.engine.io.xml_files import parse_xml
from stepscope.eval.datasets import framewise, tools
from stepscope.eval.datasets.mappings import DatasetMapping, override, read_bundled, read_mappings
from stepscope.eval.datasets.recipes import read_graph
from stepscope.eval.datasets.segment_json import list_records, list_rows, read_segments, read_taxonomy
from stepscope.eval.datasets.segments import AnnotatedVideo, Annotations, RecipeStep, Segment, normalise
from stepscope.eval.datasets.table import list_missing, read_lengths, read_lines, read_table, split_table

_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".json", ".eaf", ".anvil", ".xml", ".vtt", ".srt", ".bundle")
_WEB_PAGE: Final = re.compile(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_CAPTIONS: Final = re.compile(r"\s*(?:WEBVTT|\d+\s*\n\s*[\d:]+,\d+\s*-->)")
_TASK: Final = re.compile(r"(\d+)\n([^\n]+)\n(?:https?://[^\n]*)?\n\d+\n([^\n]+)(?:\n|$)")
_NUM_LINES: Final = 20
"""Lines of a file by which it is recognised."""


class UnknownFormError(ValueError):
    """A file has none of the forms."""


@dataclass(kw_only=True)
class AnnotationReader:
    """Collects the content of files."""

    candidates: Sequence[DatasetMapping]
    is_chosen: bool = False
    """Whether the user chose the candidates, so that the only one of a form need not be recognised in a named file."""
    unit: str = ""
    level: int = 1
    videos: dict[str, AnnotatedVideo] = field(default_factory=dict)
    recipes: dict[str, tuple[RecipeStep, ...]] = field(default_factory=dict)
    goals: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    subsets: dict[str, str] = field(default_factory=dict)
    """Name of the subset by video, from published lists."""
    lengths: dict[str, float] = field(default_factory=dict)
    datasets: dict[str, None] = field(default_factory=dict)
    _is_certain: bool = False

    def read(self, path: Path, *, is_named: bool) -> None:
        """Add the content of a file, which the user named itself or not. Raises ``ValueError`` naming it."""
        if any(path.name == one.zero for one in self.candidates):
            return
        self._is_certain = self.is_chosen and is_named
        if path.suffix.lower() in (".eaf", ".anvil", ".xml"):
            root = parse_xml(path, kind="annotations in XML")
            with reading(path):
                self._add([tools.read_document(root, path.stem, self.unit, level=self.level)], root.tag.lower())
            return
        with reading(path):
            text = read_text(path)
            if _WEB_PAGE.match(text):
                raise ValueError("it is a web page; download the file itself, such as its raw form on GitHub")
            if text.lstrip().startswith(("{", "[")):
                self._read_json(load_json(text), path)
            elif _CAPTIONS.match(text):
                self._add([tools.read_captions(text, path.stem, level=self.level)], "captions")
            elif not self._read_lists(text, path):
                self._read_text(text, path)

    def _read_json(self, content: Any, path: Path) -> None:
        if isinstance(content, dict) and {"steps", "edges"} <= content.keys():
            self.recipes[normalise(path.stem)] = read_graph(content)
        elif _is_lists(content):
            for name, ids in content.items():
                self._add_subset(name.lower(), ids)
        elif (project := tools.read_project(content, self.unit, level=self.level)) is not None:
            self._add(project, "VIA" if isinstance(content, dict) else "Label Studio")
        elif (mapping := self._find("json", partial(_fits_json, content))) is not None:
            self.recipes.update(read_taxonomy(content, mapping))
            name = _name_fields(path, mapping)
            self._add(read_segments(content, name, mapping, level=self.level), mapping.description)
        else:
            known = ", ".join(one.name for one in self.candidates if one.form == "json")
            raise UnknownFormError(f"it has the keys of no data set ({known}); describe it in a file for --mapping")

    def _read_lists(self, text: str, path: Path) -> bool:
        """Read a list of videos, of classes or of tasks; return whether the file is one."""
        if (videos := framewise.read_bundle(text)) is not None:
            self._add_subset(path.stem.lower(), videos)
        elif (classes := framewise.read_classes(text)) is not None:
            self.classes |= classes
        elif _TASK.match(text):
            for number, title, steps in _TASK.findall(text):
                self.goals[number] = title.strip()
                names = enumerate(map(str.strip, steps.split(",")), start=1)
                self.recipes[number] = tuple(RecipeStep(name=name, step_id=str(place)) for place, name in names)
        else:
            return False
        return True

    def _read_text(self, text: str, path: Path) -> None:
        lines = [line.strip("\r ") for line in text.splitlines() if line.strip()]
        if not lines:
            raise ValueError("it is empty")
        of_lines = self._find("lines", partial(_fits_lines, lines))
        is_framewise = not any(re.search(r"[\s,;]", line) for line in lines[:_NUM_LINES])
        if of_lines is not None:
            of_lines = _with_zero(of_lines, path)
            self._add(read_lines(text, _name_fields(path, of_lines), of_lines, level=self.level), of_lines.description)
        elif is_framewise and len(lines) > 1:
            mapping = self._find("framewise", lambda one: not one.keys or not {*one.keys}.isdisjoint(lines))
            if mapping is None:
                raise UnknownFormError("frame-wise labels need a mapping of the form framewise")
            videos = framewise.read_framewise(text, _name_fields(path, mapping), mapping, self.classes)
            self._add(videos, mapping.description)
        else:
            self._read_table(text, path)

    def _read_table(self, text: str, path: Path) -> None:
        try:
            table = split_table(text)
        except ValueError as error:
            raise UnknownFormError(str(error)) from error
        if (lengths := read_lengths(table)) is not None:
            self.lengths |= lengths
            return
        if {"Time", "Behavior", "Behavior type"} <= {*table.columns}:
            self._add(tools.read_boris(table, path.stem, level=self.level), "BORIS")
            return
        listed = ", ".join(map(str, table.columns))[:200]
        for cased in (table, table.rename(columns=str.lower)):
            mapping = self._find("table", partial(_fits_table, {*cased.columns}))
            if mapping is not None:
                videos = read_table(cased, _name_fields(path, mapping), mapping, level=self.level)
                self._add(videos, mapping.description)
                return
        raise UnknownFormError(f"no data set has the columns {listed}; name those of yours with --columns")

    def _find(self, form: str, fits: Callable[[DatasetMapping], bool]) -> DatasetMapping | None:
        """Return the mapping of a form that fits a file; None if there is none. Raises ``ValueError`` for several."""
        of_form = [one for one in self.candidates if one.form == form]
        fitting = of_form if self._is_certain and len(of_form) == 1 else [one for one in of_form if fits(one)]
        most = max((len(one.keys) for one in fitting), default=0)
        best = [one for one in fitting if len(one.keys) == most]
        if len(best) > 1:
            raise ValueError(f"it may be of {' or '.join(one.name for one in best)}; choose with --dataset")
        return best[0] if best else None

    def _add_subset(self, name: str, ids: Sequence[str]) -> None:
        for video_id in ids:
            if self.subsets.setdefault(video_id, name) != name:
                raise ValueError(f"video {video_id} is in {self.subsets[video_id]} and in {name}; keep it in one")

    def name_goal(self, video: AnnotatedVideo) -> dict[str, Any]:
        """Return the fields of the goal of a video: a number has the name that a list gives, or is left out."""
        goal = self.goals.get(video.goal) or self.classes.get(video.goal, video.goal)
        if not goal.isdigit():
            return {"goal": goal}
        return {"goal": "", "left_out": Counter(video.left_out) + Counter({"goal without a name": 1})}

    def _add(self, videos: Sequence[AnnotatedVideo], dataset: str) -> None:
        self.datasets[dataset] = None
        for video in videos:
            before = self.videos.get(video.video_id)
            self.videos[video.video_id] = video if before is None else _join(before, video)


def read_annotations(
    paths: Sequence[Path],
    *,
    dataset: str = "",
    mapping: Path | None = None,
    columns: Sequence[str] = (),
    unit: str = "",
    level: int = 1,
    task_graphs: Path | None = None,
    subset: str = "",
) -> Annotations:
    """Return the annotations of files and folders; ``AnnotationsOptions`` describes the arguments.

    Files of a folder without a known form are left out and named. Raises ``ValueError`` with one sentence.
    """
    known = read_bundled() if mapping is None else read_mappings(mapping)
    if dataset and dataset not in known:
        raise ValueError(f"there is no data set {dataset}; choose from {', '.join(known)}")
    chosen = [one for name, one in known.items() if not dataset or f"{name}-".startswith(f"{dataset}-")]
    candidates = [override(one, columns, unit) for one in chosen]
    reader = AnnotationReader(candidates=candidates, is_chosen=bool(dataset or mapping), unit=unit, level=level)
    not_read = list[str]()
    listed = _list_files([*paths, *([task_graphs] if task_graphs else [])])
    for path, is_named in sorted(listed, key=lambda file: "mapping" not in file[0].stem.lower()):  # labels by id first
        try:
            reader.read(path, is_named=is_named)
        except FileNotFoundError as error:
            raise ValueError(f"there is no file {path}") from error
        except ValueError as error:
            if is_named or not isinstance(error.__cause__, UnknownFormError):
                raise
            not_read.append(path.name)
    videos = [
        replace(
            video,
            **reader.name_goal(video),
            subset=reader.subsets.get(video.video_id, video.subset),
            duration_s=video.duration_s or reader.lengths.get(video.video_id),
        )
        for video in reader.videos.values()
    ]
    if subset:
        subsets = ", ".join(sorted({video.subset for video in videos} - {""})) or "no subsets"
        videos = [video for video in videos if video.subset == subset.lower()]
        if not videos:
            raise ValueError(f"no video is in the subset {subset}; there are {subsets}")
    if not videos:
        raise ValueError("the files have no annotated video; name the file with the segments, too")
    return Annotations(
        videos=tuple(videos), datasets=tuple(reader.datasets), recipes=reader.recipes, not_read=tuple(not_read)
    )


def _list_files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the files of paths, and whether each is named itself."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in _SUFFIXES and file.is_file() and not file.name.startswith("."):
                yield file, False


def _is_lists(content: Any) -> bool:
    lists = list(content.values()) if isinstance(content, dict) else []
    return bool(lists) and all(isinstance(ids, list) and all(isinstance(one, str) for one in ids) for ids in lists)


def _fits_json(content: Any, mapping: DatasetMapping) -> bool:
    try:
        record = next(list_records(content, mapping.videos), None)
        rows = list_rows(record, mapping) if record else []
    except ValueError:
        return False
    keys: set[str] = {*(content if isinstance(content, dict) else ()), *(record or ()), *(rows[0] if rows else ())}
    return {*mapping.keys} <= keys and bool(record)


def _fits_table(columns: Set[str], mapping: DatasetMapping) -> bool:
    return {*mapping.keys} <= columns and not list_missing(columns, mapping)


def _fits_lines(lines: Collection[str], mapping: DatasetMapping) -> bool:
    first = [line for line in [*lines][:_NUM_LINES] if not (mapping.skip and re.fullmatch(mapping.skip, line))]
    return bool(first) and all(re.fullmatch(mapping.line, line) for line in first)


def _name_fields(path: Path, mapping: DatasetMapping) -> dict[str, str]:
    match = re.fullmatch(mapping.file, path.stem) if mapping.file else None
    return {"@file": path.stem, **(match.groupdict(default="") if match else {})}


def _with_zero(mapping: DatasetMapping, path: Path) -> DatasetMapping:
    """Return a mapping with the zero of the times from the file beside ``path`` that it names, if there is one."""
    file = path.parent / mapping.zero
    if not file.is_file():
        return mapping
    first = read_text(file).split()[:1]
    if not first or not first[0].isdigit():
        raise ValueError(f"{file.name} beside it must begin with the time of the first frame")
    return replace(mapping, base=int(first[0]))


def _join(one: AnnotatedVideo, other: AnnotatedVideo) -> AnnotatedVideo:
    """Return the annotations of a video in two files; of a segment in both the description of its error is kept."""
    merged = dict[tuple[str, float, float], Segment]()
    segments = (*one.segments, *other.segments)
    for segment in segments:
        place = (segment.key, segment.start_s, segment.end_s)
        if place not in merged or segment.cause not in ("", "error"):
            merged[place] = segment
    counts = Counter(one.left_out) + Counter(other.left_out)
    counts["given twice"] += len(segments) - len(merged)
    names = ("goal", "recipe", "subset", "duration_s", "problem")
    known = {name: getattr(one, name) or getattr(other, name) for name in names}
    return replace(one, **known, segments=tuple(merged.values()), turns=(*one.turns, *other.turns), left_out=counts)

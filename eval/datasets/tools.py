"""Reads the segments of documents of annotation programs. Tiers, tracks and timelines are levels, in their order."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from stepscope.eval.datasets.mappings import DatasetMapping
from stepscope.eval.datasets.rows import Row, make_video
from stepscope.eval.datasets.segments import AnnotatedVideo
from stepscope.eval.runs.imports.timed_texts import SEGMENTS, parse_webvtt

_Row = tuple[str, str, str, int]
"""Start, end, label and level of an annotation."""
_FIELDS: Mapping[str, Any] = {"name": "tool", "start": "start", "end": "end", "video": "video"}
_SECONDS = DatasetMapping(**_FIELDS)


def read_document(root: ElementTree.Element, name: str, unit: str, *, level: int) -> AnnotatedVideo:
    """Return the video of a document of ELAN, Anvil or CVAT. Raises ``ValueError`` for any other."""
    if root.tag == "ANNOTATION_DOCUMENT":
        media = root.find("HEADER/MEDIA_DESCRIPTOR")
        file = "" if media is None else media.get("RELATIVE_MEDIA_URL") or media.get("MEDIA_URL") or ""
        return _make(file or name, _list_elan(root), DatasetMapping(unit="ms", **_FIELDS), level)
    if root.tag == "annotation" and root.find("body") is not None:
        video = root.find("head/video")
        return _make((video is not None and video.get("src")) or name, _list_anvil(root), _SECONDS, level)
    if root.tag == "annotations":
        source = root.findtext("meta/task/source") or root.findtext("meta/source") or root.findtext("meta/task/name")
        return _make(source or name, _list_cvat(root), _count_frames(unit, "CVAT"), level)
    raise ValueError(f"a document with the root {root.tag[:40]} is none of ELAN, Anvil or CVAT")


def read_project(content: Any, unit: str, *, level: int) -> list[AnnotatedVideo] | None:
    """Return the videos of a project of VIA 3 or an export of Label Studio; None for any other JSON value."""
    first = content[0] if isinstance(content, list) and content else None
    try:
        if isinstance(content, dict) and {"metadata", "file", "view", "attribute"} <= content.keys():
            return _group(_list_via(content), _SECONDS, level)
        if isinstance(first, dict) and {"data", "annotations"} <= first.keys():
            mapping = _count_frames(unit, "Label Studio", base=1, end_included=True)  # frames from 1, ends included
            return _group(_list_label_studio(content), mapping, level)
    except (AttributeError, LookupError, RuntimeError, TypeError) as error:  # RuntimeError: next() in a generator
        raise ValueError(f"the project is damaged at {error}; export it again") from error
    return None


def read_captions(text: str, name: str, *, level: int) -> AnnotatedVideo:
    """Return the video of WebVTT or SRT captions."""
    cues = parse_webvtt(text)[SEGMENTS]
    return _make(name, [(str(cue["start"]), str(cue["end"]), cue["text"], 1) for cue in cues], _SECONDS, level)


def read_boris(table: pd.DataFrame, name: str, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of a table of events. Raises ``ValueError`` for a stop without a start, and the reverse."""
    rows = list[tuple[str, _Row]]()
    started: dict[tuple[str, str, str], str] = {}
    for record in table.to_dict(orient="records"):
        file = record.get("Media file name") or record.get("Media file path") or record.get("Observation id") or name
        key, kind = (str(file), str(record.get("Subject", "")), str(record["Behavior"])), record["Behavior type"]
        if kind == "START" and key not in started:
            started[key] = record["Time"]
        elif kind == "POINT" or (kind == "STOP" and key in started):
            start = record["Time"] if kind == "POINT" else started.pop(key)
            rows.append((key[0], (start, record["Time"], key[2], 1)))
        else:
            raise ValueError(f"{key[2][:80]!r} at {record['Time']} has no matching start; correct the events in BORIS")
    if started:
        raise ValueError(f"{next(iter(started))[2][:80]!r} has a start without a stop; correct the events in BORIS")
    return _group(rows, _SECONDS, level)


def _group(rows: Iterable[tuple[str, _Row]], mapping: DatasetMapping, level: int) -> list[AnnotatedVideo]:
    """Return the videos of annotations, each with the name of its file."""
    by_file: dict[str, list[_Row]] = {}
    for file, row in rows:
        by_file.setdefault(file, []).append(row)
    return [_make(file, of_file, mapping, level) for file, of_file in by_file.items()]


def _make(file: str, rows: Iterable[_Row], mapping: DatasetMapping, level: int) -> AnnotatedVideo:
    listed = [
        Row(place=f"annotation {number}", fields={"start": start, "end": end, "label": label}, level=depth)
        for number, (start, end, label, depth) in enumerate(rows, start=1)
    ]
    return make_video({"video": file}, listed, mapping, level=level)


def _count_frames(unit: str, program: str, **fields: Any) -> DatasetMapping:
    if not unit.startswith("frames@"):
        raise ValueError(f"{program} writes numbers of frames without their rate; give --unit frames@RATE")
    return DatasetMapping(unit=unit, **_FIELDS, **fields)


def _list_via(content: Any) -> Iterable[tuple[str, _Row]]:
    attributes = list(content["attribute"])
    for entry in content["metadata"].values():
        for attribute, value in entry["av"].items() if entry["z"] else ():
            file = content["file"][str(content["view"][str(entry["vid"])]["fid_list"][0])]["fname"]
            label = (content["attribute"][attribute].get("options") or {}).get(value, value)
            yield file, (str(entry["z"][0]), str(entry["z"][-1]), label, attributes.index(attribute) + 1)


def _list_label_studio(content: Any) -> Iterable[tuple[str, _Row]]:
    for task in content:
        file = next(value for value in task["data"].values() if isinstance(value, str))
        for value in (result["value"] for one in task["annotations"] for result in one["result"]):
            for span, label in product(value.get("ranges", ()), value.get("timelinelabels", ())):
                yield file, (str(span["start"]), str(span["end"]), label, 1)


def _list_elan(root: ElementTree.Element) -> Iterable[_Row]:
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE", "") for slot in root.iterfind("TIME_ORDER/TIME_SLOT")}
    for number, tier in enumerate(root.iterfind("TIER"), start=1):
        for found in tier.iterfind("ANNOTATION/ALIGNABLE_ANNOTATION"):
            start, end = (slots.get(found.get(name), "") for name in ("TIME_SLOT_REF1", "TIME_SLOT_REF2"))
            yield start, end, found.findtext("ANNOTATION_VALUE") or "", number


def _list_anvil(root: ElementTree.Element) -> Iterable[_Row]:
    for number, track in enumerate(root.iterfind("body/track"), start=1):
        for element in track.iterfind("el"):
            label = " ".join(filter(None, (attribute.text for attribute in element.iterfind("attribute"))))
            yield element.get("start", ""), element.get("end", ""), label, number


def _list_cvat(root: ElementTree.Element) -> Iterable[_Row]:
    """Yield the parts of each track in which its shape is inside the picture; the last one ends with its last shape."""
    for track in root.iterfind("track"):
        start, frame, label = "", "", track.get("label", "")
        for shape in track:
            frame, is_outside = shape.get("frame", ""), shape.get("outside") == "1"
            if is_outside and start:
                yield start, frame, label, 1
            start = "" if is_outside else start or frame
        if start:
            yield start, str(int(frame) + 1 if frame.isdigit() else frame), label, 1

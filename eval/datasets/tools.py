"""Reads the segments of documents of annotation programs. Tiers, tracks and timelines are levels, in their order."""

from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from stepscope.eval.datasets.mappings import DatasetMapping
from stepscope.eval.datasets.rows import Row, make_video
from stepscope.eval.datasets.segments import AnnotatedVideo
from stepscope.eval.runs.imports.timed_texts import SEGMENTS, parse_webvtt

_FIELDS: Mapping[str, Any] = {"start": "start", "end": "end", "video": "video"}
_SECONDS = DatasetMapping(name="tool", **_FIELDS)
_MILLISECONDS = DatasetMapping(name="tool", unit="ms", **_FIELDS)


def read_document(root: ElementTree.Element, name: str, unit: str, *, level: int) -> AnnotatedVideo:
    """Return the video of a document of ELAN, Anvil or CVAT. Raises ``ValueError`` for any other."""
    if root.tag == "ANNOTATION_DOCUMENT":
        media = root.find("HEADER/MEDIA_DESCRIPTOR")
        file = "" if media is None else media.get("RELATIVE_MEDIA_URL") or media.get("MEDIA_URL") or ""
        return _make(file or name, _list_elan(root), _MILLISECONDS, level)
    if root.tag == "annotation" and root.find("body") is not None:
        video = root.find("head/video")
        return _make((video is not None and video.get("src")) or name, _list_anvil(root), _SECONDS, level)
    if root.tag == "annotations":
        source = root.findtext("meta/task/source") or root.findtext("meta/source") or root.findtext("meta/task/name")
        return _make(source or name, _list_cvat(root), _count_frames(unit, "CVAT"), level)
    raise ValueError(f"a document with the root {root.tag[:40]} is none of ELAN, Anvil or CVAT")


def is_via(content: Any) -> bool:
    """Whether a JSON value is a project of VIA 3."""
    return isinstance(content, dict) and {"metadata", "file", "view", "attribute"} <= content.keys()


def read_via(content: Any, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of a project of VIA 3; each attribute is a level."""
    files, views, attributes = content["file"], content["view"], content["attribute"]
    order = list(attributes)
    rows: dict[str, list[tuple[str, str, str, int]]] = {}
    try:
        for entry in content["metadata"].values():
            if not entry["z"]:
                continue
            file = files[str(views[str(entry["vid"])]["fid_list"][0])]["fname"]
            for attribute, value in entry["av"].items():
                label = (attributes[attribute].get("options") or {}).get(value, value)
                row = (str(entry["z"][0]), str(entry["z"][-1]), label, order.index(attribute) + 1)
                rows.setdefault(file, []).append(row)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the project of VIA is damaged at {error}; save it again") from error
    return [_make(file, of_file, _SECONDS, level) for file, of_file in rows.items()]


def is_label_studio(content: Any) -> bool:
    """Whether a JSON value is an export of Label Studio."""
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and "data" in first and "annotations" in first


def read_label_studio(content: Any, unit: str, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of an export of Label Studio, whose frames count from 1 and are included."""
    videos, mapping = [], _count_frames(unit, "Label Studio", base=1, end_included=True)
    try:
        for task in content:
            file = next(value for value in task["data"].values() if isinstance(value, str))
            results = [result["value"] for one in task["annotations"] for result in one["result"]]
            rows = [
                (str(span["start"]), str(span["end"]), label, 1)
                for value in results
                for span in value.get("ranges", ())
                for label in value["timelinelabels"]
            ]
            videos.append(_make(file, rows, mapping, level))
    except (AttributeError, KeyError, StopIteration, TypeError) as error:
        raise ValueError(f"the export of Label Studio is damaged at {error}; export it as JSON again") from error
    return videos


def read_captions(text: str, name: str, *, level: int) -> AnnotatedVideo:
    """Return the video of WebVTT or SRT captions."""
    cues = parse_webvtt(text)[SEGMENTS]
    return _make(name, [(str(cue["start"]), str(cue["end"]), cue["text"], 1) for cue in cues], _SECONDS, level)


def is_boris(table: pd.DataFrame) -> bool:
    """Whether a table has the events of BORIS: a row for each start and each stop."""
    return {"Time", "Behavior", "Behavior type"} <= {*table.columns}


def read_boris(table: pd.DataFrame, name: str, *, level: int) -> list[AnnotatedVideo]:
    """Return the videos of a table of events. Raises ``ValueError`` for a stop without a start, and the reverse."""
    rows: dict[str, list[tuple[str, str, str, int]]] = {}
    started: dict[tuple[str, str, str], str] = {}
    for record in table.to_dict(orient="records"):
        file = record.get("Media file name") or record.get("Media file path") or record.get("Observation id") or name
        key, kind = (str(file), str(record.get("Subject", "")), str(record["Behavior"])), record["Behavior type"]
        if kind == "START" and key not in started:
            started[key] = record["Time"]
        elif kind == "POINT" or (kind == "STOP" and key in started):
            rows.setdefault(key[0], []).append((started.pop(key, record["Time"]), record["Time"], key[2], 1))
        else:
            raise ValueError(f"{key[2][:80]!r} at {record['Time']} has no matching start; correct the events in BORIS")
    if started:
        raise ValueError(f"{next(iter(started))[2][:80]!r} has a start without a stop; correct the events in BORIS")
    return [_make(file, of_file, _SECONDS, level) for file, of_file in rows.items()]


def _make(file: str, rows: Iterable[tuple[str, str, str, int]], mapping: DatasetMapping, level: int) -> AnnotatedVideo:
    """Return a video from rows of start, end, label and level."""
    listed = [
        Row(place=f"annotation {number}", fields={"start": start, "end": end, "label": label}, level=depth)
        for number, (start, end, label, depth) in enumerate(rows, start=1)
    ]
    return make_video({"video": file}, listed, mapping, level=level)


def _count_frames(unit: str, program: str, **fields: Any) -> DatasetMapping:
    if not unit.startswith("frames@"):
        raise ValueError(f"{program} writes numbers of frames without their rate; give --unit frames@RATE")
    return DatasetMapping(name="tool", unit=unit, **_FIELDS, **fields)


def _list_elan(root: ElementTree.Element) -> Iterable[tuple[str, str, str, int]]:
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE", "") for slot in root.iterfind("TIME_ORDER/TIME_SLOT")}
    for number, tier in enumerate(root.iterfind("TIER"), start=1):
        for found in tier.iterfind("ANNOTATION/ALIGNABLE_ANNOTATION"):
            start, end = (slots.get(found.get(name), "") for name in ("TIME_SLOT_REF1", "TIME_SLOT_REF2"))
            yield start, end, found.findtext("ANNOTATION_VALUE") or "", number


def _list_anvil(root: ElementTree.Element) -> Iterable[tuple[str, str, str, int]]:
    for number, track in enumerate(root.iterfind("body/track"), start=1):
        for element in track.iterfind("el"):
            label = " ".join(filter(None, (attribute.text for attribute in element.iterfind("attribute"))))
            yield element.get("start", ""), element.get("end", ""), label, number


def _list_cvat(root: ElementTree.Element) -> Iterable[tuple[str, str, str, int]]:
    """Yield the parts of each track in which its shape is inside the picture; the last one ends with its last shape."""
    for track in root.iterfind("track"):
        start, label = "", track.get("label", "")
        for shape in track:
            frame, is_outside = shape.get("frame", ""), shape.get("outside") == "1"
            if is_outside and start:
                yield start, frame, label, 1
            start = "" if is_outside else start or frame
        if start:
            yield start, str(int(frame) + 1 if frame.isdigit() else frame), label, 1

"""Rows as an ELAN document (EAF 3.0), and corrections from one that was edited in ELAN.

A track is a tier; turns that begin together need a tier of their own each, ``corrected: update (2)``, as annotations of
a tier may not overlap. The tiers ``corrected: ...`` hold the reference as it stands and are the ones to edit: moved,
reworded, added and deleted annotations come back as corrections; their ends mean nothing, and all other tiers are only
to be looked at. Characters that XML forbids are shown by the signs that Unicode has for them.

Source: the elements and their order are those of ELAN's EAFv3.0.xsd; an annotation is matched by what it says and
when, since ELAN may number annotations anew.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, groupby
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from app.exports.spans import Span, list_spans, split_lanes, to_ms
from app.exports.tabulate import ReviewedVideo, tabulate
from engine.records import write_whole
from eval.corrections import (
    CorrectedTurn,
    Correction,
    CorrectionKind,
    TurnName,
    apply_corrections,
    check_correction,
    name_turns,
)
from eval.samples import Role, Sample

_SIGNS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
_VISIBLE = str.maketrans(_SIGNS | dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd"))
_EDITED = re.compile(r"corrected: (update|user|assistant)( \(\d+\))?")
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_ORIGIN = ("video_id", "last_action", "prefer", "only")
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class EafOrigin:
    """What a document was written from."""

    sample: Sample
    """The reference of its video."""
    last_action: str
    """The last action that counted; empty when there was none."""
    prefer: tuple[str, ...]
    """Whose corrections counted in a conflict."""
    only: str | None
    """Whose corrections alone counted; None where all did."""


def write_eaf(path: Path, video: ReviewedVideo, *, at: datetime | None = None) -> None:
    """Write one video's rows as tiers; ``at`` is the document's date, now by default."""
    lanes: dict[str, list[Span]] = {}
    for track, spans in groupby(list_spans(tabulate([video])), key=lambda span: span.track):
        for lane in split_lanes(spans):
            lanes[_unused(_visible(track), lanes)] = lane
    for role in ("update", "user", "assistant") if video.sample else ():
        lanes.setdefault(f"corrected: {role}", [])
    document = ElementTree.Element(
        "ANNOTATION_DOCUMENT",
        {
            "AUTHOR": "StepScope",
            "DATE": (at or datetime.now(UTC)).isoformat(timespec="seconds"),
            "FORMAT": "3.0",
            "VERSION": "3.0",
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:noNamespaceSchemaLocation": _SCHEMA,
        },
    )
    _add_header(document, video, sum(len(lane) for lane in lanes.values()))
    order = ElementTree.SubElement(document, "TIME_ORDER")
    _add_tiers(document, order, lanes)
    ElementTree.SubElement(document, "LINGUISTIC_TYPE", LINGUISTIC_TYPE_ID="text", TIME_ALIGNABLE="true")
    ElementTree.indent(document)
    with write_whole(path, binary=True) as file:
        file.write(ElementTree.tostring(document, encoding="utf-8", xml_declaration=True))


def read_eaf_origin(path: Path, *, samples: Iterable[Sample]) -> EafOrigin:
    """Return which sample a document is of and what counted when it was written.

    Raises ``ValueError`` for a document that does not say it, or is of another video.
    """
    told = {found.get("NAME"): found.text or "" for found in _parse(path).iterfind("HEADER/PROPERTY")}
    try:
        video_id, last_action, prefer, only = (told[name] for name in _ORIGIN)
        return EafOrigin(
            sample=next(sample for sample in samples if _visible(sample.video_id) == video_id),
            last_action=last_action,
            prefer=tuple(str(name) for name in json.loads(prefer)),
            only=only or None,
        )
    except StopIteration as error:
        raise ValueError(f"{path} is of the video {video_id}, which the split does not hold") from error
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} does not say what it was made from; export it again and edit that one") from error


def read_eaf_corrections(
    path: Path, *, sample: Sample, corrections: Sequence[Correction] = (), reviewer: str, prefer: Sequence[str] = ()
) -> tuple[Correction, ...]:
    """Return what a reviewer changed in a document that ``write_eaf`` wrote.

    Args:
        path: The edited document.
        sample: The source's reference of its video.
        corrections: Those that counted when it was written: only what differs from them comes back.
        reviewer: In whose name.
        prefer: As it was when it was written.

    Raises ``ValueError`` naming the annotation that cannot be a turn of the video.
    """
    root = _parse(path)
    told = root.findtext("HEADER/PROPERTY[@NAME='video_id']")
    if told is not None and told != _visible(sample.video_id):
        raise ValueError(f"{path} is of the video {told}, not of {sample.video_id}")
    base = apply_corrections(sample, corrections, prefer=prefer)
    names = [*name_turns(sample.turns), *(correction.turn for correction in corrections if correction.kind == "add")]
    found = []
    for role in ("update", "user", "assistant"):
        turns = [turn for turn in base.turns if turn.turn.role == role]
        found += _compare(turns, _annotations(root, path, role, sample), names, reviewer)
    for correction in found:
        try:
            check_correction(sample, correction)
        except ValueError as error:
            what = correction.text or correction.turn.text
            raise ValueError(f"{path}, the {correction.turn.role} annotation {what!r}: {error}") from error
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Annotation:
    role: Role
    time_s: float
    text: str

    @property
    def start_ms(self) -> int:
        return to_ms(self.time_s)


def _unused(name: str, names: Collection[str]) -> str:
    """Return a name that no tier has yet."""
    return name if name not in names else next(n for i in count(2) if (n := f"{name} ({i})") not in names)


def _add_header(document: ElementTree.Element, video: ReviewedVideo, num_annotations: int) -> None:
    header = ElementTree.SubElement(document, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    if video.video_path is not None:
        url = video.video_path.resolve().as_uri()
        ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", MEDIA_URL=url, MIME_TYPE="video/mp4")
    review = video.review
    values = (video.video_id, review.last_action, json.dumps(video.prefer), review.only or "")
    origin = zip(_ORIGIN, values, strict=True)
    for name, text in (*origin, ("lastUsedAnnotationId", str(num_annotations))):
        ElementTree.SubElement(header, "PROPERTY", NAME=name).text = _visible(text)


def _add_tiers(document: ElementTree.Element, order: ElementTree.Element, lanes: Mapping[str, Sequence[Span]]) -> None:
    slots: list[tuple[int, str]] = []
    number = 0
    for name, lane in lanes.items():
        tier = ElementTree.SubElement(document, "TIER", LINGUISTIC_TYPE_REF="text", TIER_ID=name)
        if name.startswith("verdicts: "):
            tier.set("ANNOTATOR", _visible(lane[0].track.removeprefix("verdicts: ")))
        for span in lane:
            number += 1
            start, end = f"ts{2 * number - 1}", f"ts{2 * number}"
            slots += [(span.start_ms, start), (span.end_ms, end)]
            annotation = ElementTree.SubElement(
                ElementTree.SubElement(tier, "ANNOTATION"),
                "ALIGNABLE_ANNOTATION",
                ANNOTATION_ID=f"a{number}",
                TIME_SLOT_REF1=start,
                TIME_SLOT_REF2=end,
            )
            ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = _visible(span.text)
    for time_ms, slot in sorted(slots, key=lambda slot: slot[0]):
        ElementTree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(time_ms))


def _parse(path: Path) -> ElementTree.Element:
    content = path.read_bytes()
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES // 2**20} MiB; an ELAN document is a text of a few")
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(content, True)
        root = ElementTree.fromstring(content)
    except (expat.ExpatError, ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an ELAN document: {error}") from error
    if root.tag != "ANNOTATION_DOCUMENT":
        raise ValueError(f"{path} is no ELAN document: its root is {root.tag}, not ANNOTATION_DOCUMENT")
    return root


def _refuse_doctype(*_: object) -> None:
    raise ValueError("it declares a document type, which ELAN never writes")


def _annotations(root: ElementTree.Element, path: Path, role: Role, sample: Sample) -> list[_Annotation]:
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iterfind("TIME_ORDER/TIME_SLOT")}
    found = []
    for tier in root.iterfind("TIER"):
        match = _EDITED.fullmatch(tier.get("TIER_ID", ""))
        if match is None or match[1] != role:
            continue
        for annotation in tier.iterfind("ANNOTATION/*"):
            text = annotation.findtext("ANNOTATION_VALUE") or ""
            time_ms = slots.get(annotation.get("TIME_SLOT_REF1"))
            place = f"{path}, tier {match[0]!r}, annotation {annotation.get('ANNOTATION_ID')}"
            if time_ms is None or not time_ms.isdecimal():
                raise ValueError(f"{place} ({text!r}) has no time of its own; align it in ELAN")
            if not text.strip():
                raise ValueError(f"{place} is empty; write what is said, or delete it")
            found.append(_Annotation(role=role, time_s=_snap(int(time_ms) / 1000, sample.fps), text=text))
    return sorted(found, key=lambda annotation: annotation.time_s)


def _snap(time_s: float, fps: float) -> float:
    """Return the start of the frame that a time means, where milliseconds cannot tell the two apart."""
    start_s = round(time_s * fps) / fps
    return start_s if abs(start_s - time_s) <= 0.0005 else time_s


def _compare(
    turns: Sequence[CorrectedTurn], annotations: Sequence[_Annotation], names: list[TurnName], reviewer: str
) -> list[Correction]:
    """Pair what is unchanged, then what only moved (nearest first), then what only says something else."""
    old, new = list(turns), list(annotations)
    found: list[Correction] = []
    for turn, annotation in _pair(old, new, is_text=True, is_time=True):
        old.remove(turn)
        new.remove(annotation)
    for turn, annotation in _pair(old, new, is_text=True, is_time=False):
        old.remove(turn)
        new.remove(annotation)
        found.append(Correction(reviewer=reviewer, kind="time", turn=turn.name, time_s=annotation.time_s))
    for turn, annotation in _pair(old, new, is_text=False, is_time=True):
        old.remove(turn)
        new.remove(annotation)
        kind: CorrectionKind = "update" if annotation.role == "update" else "text"
        found.append(Correction(reviewer=reviewer, kind=kind, turn=turn.name, text=annotation.text))
    found += [Correction(reviewer=reviewer, kind="delete", turn=turn.name) for turn in old]
    for annotation in new:
        name = TurnName(role=annotation.role, time_s=annotation.time_s, text=annotation.text)
        taken = [other.number for other in names if other.key[:3] == name.key[:3]]
        name = replace(name, number=max(taken, default=-1) + 1)
        names.append(name)
        found.append(Correction(reviewer=reviewer, kind="add", turn=name))
    return found


def _pair(
    turns: Sequence[CorrectedTurn], annotations: Sequence[_Annotation], *, is_text: bool, is_time: bool
) -> list[tuple[CorrectedTurn, _Annotation]]:
    """Return pairs of equal text, or of equal time, or both; each in one pair, the nearest in time first."""
    texts = [_visible(turn.turn.text) for turn in turns]
    near = [
        (abs(to_ms(turn.turn.time_s) - annotation.start_ms), i, j)
        for i, turn in enumerate(turns)
        for j, annotation in enumerate(annotations)
        if not is_text or texts[i] == annotation.text
        if not is_time or to_ms(turn.turn.time_s) == annotation.start_ms
    ]
    left, right = set(range(len(turns))), set(range(len(annotations)))
    pairs = []
    for _, i, j in sorted(near):
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            pairs.append((turns[i], annotations[j]))
    return pairs


def _visible(text: str) -> str:
    return text.encode("utf-8", "replace").decode().translate(_VISIBLE)

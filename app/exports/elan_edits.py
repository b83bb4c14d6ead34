"""Corrections from a document of ``app.exports.elan`` that was edited in ELAN.

What differs from the document as it was written comes back as corrections; an annotation is matched by what it says and
when, since ELAN may number annotations again. Only the tiers ``corrected: ...`` are read, and of them no ends. Turns
whose tier is missing, because it was renamed or taken out, are deleted only where that is allowed. A document type,
which ELAN never writes, is refused, and so is a document of more than ``_MOST_BYTES``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from app.exports.elan import ORIGIN, visible
from app.exports.pairing import pair_equal, pair_nearest
from app.exports.spans import to_ms
from eval.annotations.corrected_samples import CorrectedTurn, apply_corrections
from eval.annotations.corrections import Correction, CorrectionKind, TurnName, check_correction, name_turns
from eval.data.samples import Role, Sample

_EDITED = re.compile(r"corrected: (update|user|assistant)( \(\d+\))?")
_MOST_BYTES = 64 * 2**20


_Alike = tuple[str, int, str]
"""Role, milliseconds and text: what turns that are alike share."""


class MissingTierError(ValueError):
    """A tier of the document is missing, and its turns would be deleted."""


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


def read_eaf_origin(path: Path, *, samples: Iterable[Sample]) -> EafOrigin:
    """Return which sample a document is of and what counted when it was written.

    Raises ``ValueError`` for a document that does not say it, or is of another video.
    """
    told = {found.get("NAME"): found.text or "" for found in _parse(path).iterfind("HEADER/PROPERTY")}
    try:
        video_id, last_action, prefer, only = (told[name] for name in ORIGIN)
        return EafOrigin(
            sample=next(sample for sample in samples if visible(sample.video_id) == video_id),
            last_action=json.loads(last_action),
            prefer=tuple(json.loads(prefer)),
            only=json.loads(only),
        )
    except StopIteration as error:
        raise ValueError(f"{path} is of the video {video_id}, which the split does not hold") from error
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} does not say what it was made from; export it again and edit that one") from error


def read_eaf_corrections(
    path: Path,
    *,
    sample: Sample,
    corrections: Sequence[Correction] = (),
    reviewer: str,
    prefer: Sequence[str] = (),
    allow_deletions: bool = False,
) -> tuple[Correction, ...]:
    """Return what a reviewer changed in a document that ``write_eaf`` wrote.

    Args:
        path: The edited document.
        sample: The source's reference of its video.
        corrections: Those that counted when it was written: only what differs from them comes back.
        reviewer: In whose name.
        prefer: As it was when it was written.
        allow_deletions: Whether turns are deleted whose tier is missing.

    Raises ``ValueError`` naming the annotation that cannot be a turn of the video, and ``MissingTierError``.
    """
    root = _parse(path)
    told = root.findtext("HEADER/PROPERTY[@NAME='video_id']")
    if told is not None and told != visible(sample.video_id):
        raise ValueError(f"{path} is of the video {told}, not of {sample.video_id}")
    base = apply_corrections(sample, corrections, prefer=prefer)
    names = [*name_turns(sample.turns), *(correction.turn for correction in corrections if correction.kind == "add")]
    numbers: dict[_Alike, int] = {}
    for name in names:
        numbers[name.key[:3]] = max(name.number, numbers.get(name.key[:3], 0))
    found = list[Correction]()
    for role in ("update", "user", "assistant"):
        turns = [turn for turn in base.turns if turn.turn.role == role]
        changes = _compare(turns, _annotations(root, path, role, sample), numbers, reviewer)
        num_deleted = sum(change.kind == "delete" for change in changes)
        missing = [name for name in _tier_names(role, turns) if root.find(f"TIER[@TIER_ID='{name}']") is None]
        if missing and num_deleted and not allow_deletions:
            raise MissingTierError(
                f"{path} has no tier {', '.join(map(repr, missing))}, without which {num_deleted} "
                f"turn{'s' if num_deleted != 1 else ''} would be deleted; if it was renamed, name it so again"
            )
        found += changes
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


class _Words(NamedTuple):
    text: str
    start_ms: int


def _tier_names(role: Role, turns: Sequence[CorrectedTurn]) -> list[str]:
    """Return the tiers that ``write_eaf`` gave these turns."""
    together = Counter(to_ms(turn.turn.time_s) for turn in turns)
    numbers = range(2, max(together.values(), default=1) + 1)
    return [f"corrected: {role}", *(f"corrected: {role} ({number})" for number in numbers)]


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
    turns: Sequence[CorrectedTurn], annotations: Sequence[_Annotation], numbers: dict[_Alike, int], reviewer: str
) -> list[Correction]:
    """Pair what is unchanged, then what only moved (nearest first), then what only says something else."""
    old = {place: _Words(visible(turn.turn.text), to_ms(turn.turn.time_s)) for place, turn in enumerate(turns)}
    new = {place: _Words(found.text, found.start_ms) for place, found in enumerate(annotations)}
    found: list[Correction] = []
    for pair in pair_equal(old, new):
        _take(pair, old, new)
    for i, j in pair_nearest(old, new):
        _take((i, j), old, new)
        found.append(Correction(reviewer=reviewer, kind="time", turn=turns[i].name, time_s=annotations[j].time_s))
    for i, j in pair_equal(_times(old), _times(new)):
        _take((i, j), old, new)
        kind: CorrectionKind = "update" if annotations[j].role == "update" else "text"
        found.append(Correction(reviewer=reviewer, kind=kind, turn=turns[i].name, text=annotations[j].text))
    found += [Correction(reviewer=reviewer, kind="delete", turn=turns[place].name) for place in old]
    for place in new:
        name = TurnName(role=annotations[place].role, time_s=annotations[place].time_s, text=annotations[place].text)
        numbers[name.key[:3]] = numbers.get(name.key[:3], -1) + 1
        found.append(Correction(reviewer=reviewer, kind="add", turn=replace(name, number=numbers[name.key[:3]])))
    return found


def _take(pair: tuple[int, int], old: dict[int, _Words], new: dict[int, _Words]) -> None:
    del old[pair[0]], new[pair[1]]


def _times(words: Mapping[int, _Words]) -> dict[int, int]:
    return {place: said.start_ms for place, said in words.items()}

"""Read corrections from a document of ``app.exports.elan`` that was edited in ELAN.

Differences from the exported document become corrections. Annotations are matched by text and start time, since ELAN
may renumber their ids. Only the tiers ``corrected: ...`` are read. The end of an annotation is that of a reply span if
the turn has one, or if the annotation of an assistant's turn is longer than that of an instant. Turns of a missing tier
(renamed or removed) are deleted only with ``allow_deletions``. Documents with a document type declaration, which ELAN
never writes, and documents above 8 MiB are refused.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from stepscope.app.exports.elan import ORIGIN_PROPERTIES, escape_control_chars
from stepscope.app.exports.spans import TURN_DURATION_MS, TimedText, split_lanes, to_ms
from stepscope.engine.dialogue import parse_update
from stepscope.engine.io.files import load_json
from stepscope.engine.io.xml_files import parse_xml
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrected_samples import CorrectedTurn, apply_corrections
from stepscope.eval.annotations.corrections import Correction, CorrectionKind, TurnName, check_correction, name_turns
from stepscope.eval.data.samples import Role, Sample
from stepscope.eval.runs.imports.system_output import file_name

_EDITED = re.compile(r"corrected: (update|user|assistant)( \(\d+\))?")
_TIME = re.compile("[0-9]{1,12}")
_ORIGIN = re.compile("-?[0-9]{1,12}")
_URLS = ("MEDIA_URL", "RELATIVE_MEDIA_URL")
_INSTANT_MS = TURN_DURATION_MS + 1
"""Longest annotation of an instant, with rounding."""


_TurnKey = tuple[str, int, str]
"""Role, start in milliseconds and text; equal for turns that differ only in their number."""
_TextAndStart = tuple[str, int]
"""Text of a turn or an annotation, and its start in milliseconds."""


class MissingTierError(ValueError):
    """A tier of the document is missing, so that the import would delete its turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EafOrigin:
    """The state of the reviews that a document was exported from."""

    sample: Sample
    """The source reference of the video."""
    last_action: str
    """Id of the last action before the export; empty if there was none."""
    prefer: tuple[str, ...]
    """Reviewers whose corrections won conflicts, best first."""
    only: str | None
    """The reviewer whose corrections alone were applied; None for all reviewers."""


def read_eaf_origin(path: Path, *, samples: Iterable[Sample]) -> EafOrigin:
    """Return the sample of a document and the state of the reviews that it was exported from.

    Raises ``ValueError`` if the header lacks these properties, or the video is not in ``samples``.
    """
    properties = {found.get("NAME"): found.text or "" for found in _parse(path).iterfind("HEADER/PROPERTY")}
    try:
        video_id, last_action, prefer, only = (properties[name] for name in ORIGIN_PROPERTIES)
        return EafOrigin(
            sample=next(sample for sample in samples if escape_control_chars(sample.video_id) == video_id),
            last_action=load_json(last_action),
            prefer=tuple(load_json(prefer)),
            only=load_json(only),
        )
    except StopIteration as error:
        raise ValueError(f"{path} is of the video {video_id}, which is not in the split") from error
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path} lacks the properties of an export; export it again and edit the new file") from error


def read_eaf_corrections(
    path: Path,
    *,
    sample: Sample,
    corrections: Sequence[Correction] = (),
    reviewer: str,
    prefer: Sequence[str] = (),
    allow_deletions: bool = False,
) -> tuple[Correction, ...]:
    """Return the changes of an edited document of ``write_eaf`` as corrections.

    Args:
        path: The edited document.
        sample: The source reference of the video.
        corrections: The corrections in effect at the export; the result contains only differences from them.
        reviewer: The reviewer of the new corrections.
        prefer: The value of ``prefer`` at the export.
        allow_deletions: Whether to delete the turns of missing tiers.

    Raises ``ValueError`` with the annotation that cannot be a turn of the video, and ``MissingTierError``.
    """
    root = _parse(path)
    base = apply_corrections(sample, corrections, prefer=prefer)
    names = [*name_turns(sample.turns), *(correction.turn for correction in corrections if correction.kind == "add")]
    numbers: dict[_TurnKey, int] = {}
    for name in names:
        numbers[name.key[:3]] = max(name.number, numbers.get(name.key[:3], 0))
    found = list[Correction]()
    for role in ("update", "user", "assistant"):
        turns = [turn for turn in base.turns if turn.turn.role == role]
        lanes = _exported_lanes(turns)
        changes = _find_changes(turns, lanes, _annotations(root, path, role, sample, turns), numbers, reviewer)
        num_deleted = sum(change.kind == "delete" for change in changes)
        tiers = [f"corrected: {role}", *(f"corrected: {role} ({number})" for number in range(2, len(lanes) + 1))]
        missing = [name for name in tiers if root.find(f"TIER[@TIER_ID='{name}']") is None]
        if missing and num_deleted and not allow_deletions:
            raise MissingTierError(
                f"{path} has no tier {', '.join(map(repr, missing))}; the import would delete "
                f"{format_count(num_deleted, 'turn')}; if the tier was renamed, restore its name"
            )
        found += changes
    for correction in found:
        try:
            check_correction(sample, correction)
        except ValueError as error:
            text = correction.text or correction.turn.text
            raise ValueError(f"{path}, the {correction.turn.role} annotation {text!r}: {error}") from error
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Annotation:
    role: Role
    time_s: float
    text: str
    end_s: float | None = None
    """End of the annotation; None if it has none."""

    @property
    def start_ms(self) -> int:
        return to_ms(self.time_s)

    @property
    def is_long(self) -> bool:
        """Whether it is longer than the annotation of an instant, so that it is a reply span."""
        return self.role == "assistant" and self.end_s is not None and to_ms(self.end_s) > self.start_ms + _INSTANT_MS


def _exported_lanes(turns: Sequence[CorrectedTurn]) -> list[list[TimedText]]:
    """Return the annotations of each tier that ``write_eaf`` wrote for these turns; a text is the index of its turn.

    Example: three updates at 3.0 s are in the tiers ``corrected: update``, ``corrected: update (2)`` and
    ``corrected: update (3)``.
    """
    spans = []
    for place, turn in enumerate(turns):
        start_ms, end_ms = to_ms(turn.turn.time_s), to_ms(turn.turn.end_s or 0.0)
        spans.append(TimedText(track="", start_ms=start_ms, end_ms=max(end_ms, start_ms + 1), text=str(place)))
    return split_lanes(spans)


def _parse(path: Path) -> ElementTree.Element:
    root = parse_xml(path, kind="an ELAN document")
    if root.tag != "ANNOTATION_DOCUMENT":
        raise ValueError(f"{path} is not an ELAN document: its root is {root.tag}, not ANNOTATION_DOCUMENT")
    header = root.find("HEADER")
    units = "milliseconds" if header is None else header.get("TIME_UNITS", "milliseconds")
    if units != "milliseconds":
        raise ValueError(f"{path} has times in {units[:40]!r}; save it with TIME_UNITS milliseconds, as ELAN does")
    return root


def _annotations(
    root: ElementTree.Element, path: Path, role: Role, sample: Sample, turns: Sequence[CorrectedTurn]
) -> list[_Annotation]:
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iterfind("TIME_ORDER/TIME_SLOT")}
    shift_ms = _find_shift(root, path, sample)
    # ELAN moves an annotation to time 0 that a media offset would move before it.
    early_s = {turn.turn.text: turn.turn.time_s for turn in turns if to_ms(turn.turn.time_s) <= shift_ms}
    found = []
    for tier in root.iterfind("TIER"):
        match = _EDITED.fullmatch(tier.get("TIER_ID", ""))
        if match is None or match[1] != role:
            continue
        for annotation in tier.iterfind("ANNOTATION/*"):
            text = annotation.findtext("ANNOTATION_VALUE") or ""
            time_ms, end_ms = (slots.get(annotation.get(f"TIME_SLOT_REF{number}")) for number in (1, 2))
            place = f"{path}, tier {match[0]!r}, annotation {annotation.get('ANNOTATION_ID')}"
            if time_ms is None or not _TIME.fullmatch(time_ms):
                raise ValueError(f"{place} ({text!r}) has no start time in milliseconds; align it in ELAN")
            if not text.strip():
                raise ValueError(f"{place} is empty; enter a text, or delete the annotation")
            time_s = _snap_to_frame((int(time_ms) + shift_ms) / 1000, sample.fps)
            if int(time_ms) == 0:
                time_s = early_s.get(text, time_s)
            text = _write_plainly(role, text)
            has_end = end_ms is not None and _TIME.fullmatch(end_ms)
            end_s = _snap_to_frame((int(end_ms) + shift_ms) / 1000, sample.fps) if end_ms and has_end else None
            found.append(_Annotation(role=role, time_s=time_s, text=text, end_s=end_s))
    return sorted(found, key=lambda annotation: annotation.time_s)


def _find_shift(root: ElementTree.Element, path: Path, sample: Sample) -> int:
    """Return the milliseconds from times of the document to times of the sample.

    Time 0 of the document is at ``TIME_ORIGIN`` of the video file, which ELAN changes with the offset of the medium.
    The export writes the start of the sample there. Of several media, that with the name of the sample's video counts.
    """
    media = list(root.iterfind("HEADER/MEDIA_DESCRIPTOR"))
    if not media:
        return 0
    video = escape_control_chars((sample.video_path or Path(sample.video_id)).name)
    names = [(one, file_name(unquote(one.get(url, "")))) for one in media for url in _URLS]
    for part in ("name", "stem"):  # a copy in another format, such as boat.mov, has the same times
        fits = [one for one, name in names if getattr(PurePath(name), part) == getattr(PurePath(video), part)]
        if fits:
            break
    origins = {one.get("TIME_ORIGIN", "0") for one in fits or media}
    if len(origins) > 1:
        raise ValueError(f"{path} has {len(media)} media with different offsets; link {video} alone, with its offset")
    (origin,) = origins
    if not _ORIGIN.fullmatch(origin):
        raise ValueError(f"{path} has the media offset {origin[:40]!r}, which is no number of milliseconds")
    return int(origin) - round(1000 * (sample.start_s or 0.0))


def _snap_to_frame(time_s: float, fps: float) -> float:
    """Return the start of the nearest frame if it rounds to the same millisecond, else the time itself.

    Example at 3 fps: frame 1 starts at 0.3333 s and is exported as 333 ms; 0.333 s becomes 0.3333 s again.
    """
    start_s = round(time_s * fps) / fps
    return start_s if abs(start_s - time_s) <= 0.0005 else time_s


def _find_changes(
    turns: Sequence[CorrectedTurn],
    lanes: Sequence[Sequence[TimedText]],
    annotations: Sequence[_Annotation],
    numbers: dict[_TurnKey, int],
    reviewer: str,
) -> list[Correction]:
    """Return the corrections from turns, exported as ``lanes``, to annotations.

    Matches are made in three passes: same text and time (unchanged), same text (moved), same time (reworded).
    Unmatched turns are deletions, unmatched annotations additions. ``numbers`` has the largest number of each turn key
    and is updated by additions.
    """
    texts = [_write_plainly(turn.turn.role, escape_control_chars(turn.turn.text)) for turn in turns]
    old = {place: (texts[place], to_ms(turn.turn.time_s)) for place, turn in enumerate(turns)}
    new = {place: (found.text, found.start_ms) for place, found in enumerate(annotations)}
    ends_ms = {int(span.text): span.end_ms for lane in lanes for span in lane}
    found: list[Correction] = []
    for i, j in _take_equal(old, new, lambda name: name):
        found += _find_span(turns[i], ends_ms[i], annotations[j], reviewer)
    for i, j in _take_moved(old, new):
        moved = Correction(reviewer=reviewer, kind="time", turn=turns[i].name, time_s=annotations[j].time_s)
        found += _find_span(turns[i], ends_ms[i], annotations[j], reviewer) or [moved]
    for i, j in _take_equal(old, new, lambda name: name[1]):
        found += _find_span(turns[i], ends_ms[i], annotations[j], reviewer)
        kind: CorrectionKind = "update" if annotations[j].role == "update" else "text"
        found.append(Correction(reviewer=reviewer, kind=kind, turn=turns[i].name, text=annotations[j].text))
    found += [Correction(reviewer=reviewer, kind="delete", turn=turns[place].name) for place in old]
    for place in new:
        name = TurnName(role=annotations[place].role, time_s=annotations[place].time_s, text=annotations[place].text)
        numbers[name.key[:3]] = numbers.get(name.key[:3], -1) + 1
        name = replace(name, number=numbers[name.key[:3]])
        found.append(Correction(reviewer=reviewer, kind="add", turn=name))
        if annotations[place].is_long:
            found.append(_set_span(name, annotations[place], reviewer))
    return found


def _write_plainly(role: str, text: str) -> str:
    """Return a text, of an update without the spaces that may surround its parts."""
    return str(parse_update(text) or text) if role == "update" else text


def _find_span(turn: CorrectedTurn, end_ms: int, found: _Annotation, reviewer: str) -> list[Correction]:
    """Return the correction of a reply span, exported up to ``end_ms``, if the length of its annotation has changed."""
    if found.role != "assistant" or found.end_s is None:
        return []
    is_changed = to_ms(found.end_s) - found.start_ms != end_ms - to_ms(turn.turn.time_s)
    return [_set_span(turn.name, found, reviewer)] if (found.is_long if turn.turn.end_s is None else is_changed) else []


def _set_span(name: TurnName, found: _Annotation, reviewer: str) -> Correction:
    return Correction(reviewer=reviewer, kind="span", turn=name, time_s=found.time_s, end_s=found.end_s)


def _take_equal(
    old: dict[int, _TextAndStart], new: dict[int, _TextAndStart], key: Callable[[_TextAndStart], Any]
) -> list[tuple[int, int]]:
    """Remove the pairs with an equal key, and return them; the first old one gets the first new one."""
    places = defaultdict[Any, list[int]](list)
    for place, name in reversed(new.items()):
        places[key(name)].append(place)
    pairs = [(place, places[key(name)].pop()) for place, name in old.items() if places[key(name)]]
    for i, j in pairs:
        del old[i], new[j]
    return pairs


def _take_moved(old: dict[int, _TextAndStart], new: dict[int, _TextAndStart]) -> list[tuple[int, int]]:
    """Remove the pairs of equal texts, and return them; each new one gets the nearest old one that is left."""
    left = defaultdict[str, list[tuple[int, int]]](list)
    for place, (text, start_ms) in sorted(old.items(), key=lambda item: item[1]):
        left[text].append((start_ms, place))
    pairs = []
    for place, (text, start_ms) in new.items():
        starts = left[text]
        if starts:
            after = bisect_left(starts, (start_ms, -1))
            near = range(max(after - 1, 0), min(after + 1, len(starts)))
            _, before = starts.pop(min(near, key=lambda index: abs(starts[index][0] - start_ms)))
            pairs.append((before, place))
    for i, j in pairs:
        del old[i], new[j]
    return pairs

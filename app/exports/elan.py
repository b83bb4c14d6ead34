"""Write a reviewed video as an ELAN document (EAF 3.0).

Each track is a tier. Annotations of a tier may not overlap, so turns that start at the same time get tiers of their
own, such as ``corrected: update (2)``. The tiers ``corrected: ...`` contain the current reference and are meant to be
edited: moved, reworded, added and deleted annotations are imported by ``app.exports.elan_edits``. All remaining tiers
are read-only. The header records the state of the reviews at the export. Characters that XML forbids are replaced by
Unicode control pictures.

**Source**: the elements and their order follow ELAN's EAFv3.0.xsd.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, groupby
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from stepscope.app.exports.rows import ReviewedVideo, build_tables
from stepscope.app.exports.segments import list_step_segments
from stepscope.app.exports.spans import TimedText, list_spans, split_lanes, to_ms
from stepscope.engine.io.files import atomic_write, replace_surrogates

_SIGNS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
_VISIBLE = str.maketrans(_SIGNS | dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd"))
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
ORIGIN_PROPERTIES = ("video_id", "last_action", "prefer", "only")
"""Properties of the header: the video, then, as JSON, the parameters that determine the state of its reviews."""


def write_eaf(path: Path, video: ReviewedVideo, *, at: datetime | None = None) -> None:
    """Write the rows of one video as tiers; ``at`` is the date of the document, by default the current time."""
    lanes: dict[str, list[TimedText]] = {}
    for track, spans in groupby(list_spans(build_tables([video])), key=lambda span: span.track):
        for lane in split_lanes(spans):
            lanes[_unused_tier_name(escape_control_chars(track), lanes)] = lane
    for role in ("update", "user", "assistant") if video.sample else ():
        lanes.setdefault(f"corrected: {role}", [])
    for lane in _list_step_lanes(video):
        lanes[_unused_tier_name("steps", lanes)] = lane
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
    with atomic_write(path, binary=True) as file:
        file.write(ElementTree.tostring(document, encoding="utf-8", xml_declaration=True))


def _list_step_lanes(video: ReviewedVideo) -> list[list[TimedText]]:
    """Return the segments of the corrected steps in tiers without overlaps; their ends are not cut."""
    lanes: list[list[TimedText]] = []
    for one in list_step_segments(video):
        start_ms = to_ms(one.start_s - video.start_s)
        end_ms = max(to_ms(one.end_s - video.start_s), start_ms + 1)
        lane = next((lane for lane in lanes if lane[-1].end_ms <= start_ms), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(TimedText(track="steps", start_ms=start_ms, end_ms=end_ms, text=one.label))
    return lanes


def escape_control_chars(text: str) -> str:
    """Return a text with Unicode control pictures in place of the characters that XML forbids."""
    return replace_surrogates(text).translate(_VISIBLE)


def _unused_tier_name(name: str, names: Collection[str]) -> str:
    """Return the name, with a number if a tier has it already: ``x``, ``x (2)``, ``x (3)``."""
    return name if name not in names else next(n for i in count(2) if (n := f"{name} ({i})") not in names)


def _add_header(document: ElementTree.Element, video: ReviewedVideo, num_annotations: int) -> None:
    header = ElementTree.SubElement(document, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    if video.video_path is not None:
        url = quote(
            escape_control_chars(video.video_path.name)
        )  # no folder of this machine; ELAN looks beside the document
        media = ElementTree.SubElement(header, "MEDIA_DESCRIPTOR", MEDIA_URL=url, MIME_TYPE="video/mp4")
        if video.start_s:  # time 0 of the document is at this time of the video file
            media.set("TIME_ORIGIN", str(round(1000 * video.start_s)))
    review = video.review
    values = [
        json.dumps(value) for value in (review.last_action, video.prefer, review.only)
    ]  # JSON, since ELAN drops empty properties
    origin = zip(ORIGIN_PROPERTIES, (video.video_id, *values), strict=True)
    for name, text in (*origin, ("lastUsedAnnotationId", str(num_annotations))):
        ElementTree.SubElement(header, "PROPERTY", NAME=name).text = escape_control_chars(text)


def _add_tiers(
    document: ElementTree.Element, order: ElementTree.Element, lanes: Mapping[str, Sequence[TimedText]]
) -> None:
    slots: list[tuple[int, str]] = []
    number = 0
    for name, lane in lanes.items():
        tier = ElementTree.SubElement(document, "TIER", LINGUISTIC_TYPE_REF="text", TIER_ID=name)
        if name.startswith("verdicts: "):
            tier.set("ANNOTATOR", escape_control_chars(lane[0].track.removeprefix("verdicts: ")))
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
            ElementTree.SubElement(annotation, "ANNOTATION_VALUE").text = escape_control_chars(span.text)
    for time_ms, slot in sorted(slots, key=lambda slot: slot[0]):
        ElementTree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(time_ms))

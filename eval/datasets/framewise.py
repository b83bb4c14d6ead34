"""Reads frame-wise labels: a file per video, with a label a line; runs of equal labels are segments.

**Source**: the form of MS-TCN, ``groundTruth/NAME.txt``, ``mapping.txt`` and ``splits/NAME.bundle``.
"""

import re
from collections.abc import Mapping
from itertools import groupby

from stepscope.eval.datasets.mappings import DatasetMapping
from stepscope.eval.datasets.rows import Row, make_video
from stepscope.eval.datasets.segments import AnnotatedVideo


def read_classes(text: str) -> dict[str, str] | None:
    """Return the names by number of a text such as ``mapping.txt``, with lines ``7 pour_milk``; None for any other."""
    rows = [
        re.fullmatch(r"(\d+)(?:\s+|\s*,\s*)([^\W\d].*)", line.strip()) for line in text.splitlines() if line.strip()
    ]
    return {row[1]: row[2] for row in rows if row} if rows and all(rows) else None


def read_bundle(text: str) -> list[str] | None:
    """Return the names of the videos of a bundle; None for any other text."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    is_bundle = bool(lines) and all(line.endswith(".txt") for line in lines)
    return [re.split(r"[/\\]", line)[-1].removesuffix(".txt") for line in lines] if is_bundle else None


def read_framewise(
    text: str, name: Mapping[str, str], mapping: DatasetMapping, classes: Mapping[str, str]
) -> list[AnnotatedVideo]:
    """Return the video of a label file; ``classes`` are the labels by id, or empty if they are not known.

    Raises ``ValueError`` for a label that is not among them.
    """
    kind, _, rate = mapping.unit.partition("@")
    if kind != "frames":
        raise ValueError("labels of frames need their rate; give --unit frames@RATE")
    labels = text.split()
    known = {*classes, *classes.values()}
    if classes and (unknown := sorted({*labels} - known)):
        raise ValueError(f"the label {unknown[0][:80]!r} is not in the file of labels")
    rows, frame = list[Row](), 0
    for label, run in groupby(labels):
        end = frame + sum(1 for _ in run)
        fields = {"start": str(frame), "end": str(end), "label": classes.get(label, label)}
        rows.append(Row(place=f"line {frame + 1}", fields=fields))
        frame = end
    length = {"@length": str(len(labels) / float(rate))}
    return [make_video({**name, **length}, rows, mapping)]

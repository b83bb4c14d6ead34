"""The published formats of a split: how each is named, recognised and read.

A new format is one entry of ``SPLIT_FORMATS``, beside the module with its reader.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from stepscope.eval.data.benchmarks import (
    is_egoproactive,
    read_cooking,
    read_egoproactive,
    read_gold,
    read_omnipro,
    read_qevd,
)
from stepscope.eval.data.clips import Extent, read_clip, read_dialogue, read_extent
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample

ReadSamples = list[tuple[Sample, Extent | None]]
"""The samples of a record, each with the part of a longer video that it covers; None for a whole video."""


class SplitFormat(NamedTuple):
    """A published format of the records of a split."""

    name: str
    """Name in messages and on the page."""
    fields: str
    """The fields that recognise it, in the words of a message."""
    read: Callable[[Fields, Path], ReadSamples]
    """Reads a record of a split in a folder, where QEVD has its times. Raises ``ValueError`` naming the field."""
    matches: Callable[[Fields], bool]


def _whole(read: Callable[[Fields], Sample]) -> Callable[[Fields, Path], ReadSamples]:
    return lambda fields, _: [(read(fields), None)]


def _part(read: Callable[[Fields, Extent], Sample]) -> Callable[[Fields, Path], ReadSamples]:
    return lambda fields, _: [(read(fields, extent := read_extent(fields)), extent)]


def _read_workout(fields: Fields, folder: Path) -> ReadSamples:
    return [(sample, None) for sample in read_qevd(fields, folder)]


# The first match counts: DST clips and gold answers have a "conversation", too.
SPLIT_FORMATS: Final = (
    SplitFormat(
        "ProactiveVideoQA",
        '"question_id" and "answer"',
        _whole(read_gold),
        lambda fields: fields.has("question_id") and fields.has_list("answer"),
    ),
    SplitFormat("EgoProactive", '"video_intervals" and "answers"', _whole(read_egoproactive), is_egoproactive),
    SplitFormat(
        "OmniPro",
        '"ground_truth", "task" and "duration"',
        _whole(read_omnipro),
        lambda fields: fields.has_list("ground_truth") and fields.has("task") and fields.has("duration"),
    ),
    SplitFormat(
        "Qualcomm Interactive Cooking",
        '"output_texts" and "output_timestamps"',
        _whole(read_cooking),
        lambda fields: fields.has_list("output_texts") and fields.has_list("output_timestamps"),
    ),
    SplitFormat(
        "QEVD",
        '"long_range_video_file" and "video_timestamps"',
        _read_workout,
        lambda fields: fields.has("long_range_video_file") and fields.has("video_timestamps"),
    ),
    SplitFormat(
        "DST clips", '"dst"', _part(read_clip), lambda fields: fields.has("dst") or fields.has("inferred_goal")
    ),
    SplitFormat(
        "ProAssist dialogues",
        '"conversation" and "metadata"',
        _part(read_dialogue),
        lambda fields: fields.has("conversation"),
    ),
)


def find_format(fields: Fields) -> SplitFormat:
    """Return the format of a record. Raises ``ValueError`` if it has none."""
    for split_format in SPLIT_FORMATS:
        if split_format.matches(fields):
            return split_format
    raise ValueError(f"has an unknown format; {describe_formats()}")


def describe_formats() -> str:
    """Return the remedy for a record without a known format."""
    *others, last = (f"with {split_format.fields} ({split_format.name})" for split_format in SPLIT_FORMATS)
    return f'write an object with a list "videos" (a manifest), or objects {", ".join(others)}, or {last}'

"""The published formats of a split: how each is named, recognised and read.

A new format is one entry of ``SPLIT_FORMATS``, beside the module with its reader.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from stepscope.eval.data.benchmarks import (
    is_cooking,
    is_egoproactive,
    is_gold,
    is_omnipro,
    is_qevd,
    read_cooking,
    read_egoproactive,
    read_gold,
    read_omnipro,
    read_qevd,
)
from stepscope.eval.data.clips import Extent, is_clip, read_clip, read_dialogue, read_extent
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
    matches: Callable[[Fields], bool]
    read: Callable[[Fields, Path], ReadSamples]
    """Reads a record of a split in a folder, where QEVD has its times. Raises ``ValueError`` naming the field."""


def _whole(read: Callable[[Fields], Sample]) -> Callable[[Fields, Path], ReadSamples]:
    return lambda fields, _: [(read(fields), None)]


def _part(read: Callable[[Fields, Extent], Sample]) -> Callable[[Fields, Path], ReadSamples]:
    def read_part(fields: Fields, _: Path) -> ReadSamples:
        extent = read_extent(fields)
        return [(read(fields, extent), extent)]

    return read_part


def _read_workout(fields: Fields, folder: Path) -> ReadSamples:
    return [(sample, None) for sample in read_qevd(fields, folder)]


# The first match counts: DST clips and gold answers have a "conversation", too.
SPLIT_FORMATS: Final = (
    SplitFormat("ProactiveVideoQA", '"question_id" and "answer"', is_gold, _whole(read_gold)),
    SplitFormat("EgoProactive", '"video_intervals" and "answers"', is_egoproactive, _whole(read_egoproactive)),
    SplitFormat("OmniPro", '"ground_truth", "task" and "duration"', is_omnipro, _whole(read_omnipro)),
    SplitFormat(
        "Qualcomm Interactive Cooking", '"output_texts" and "output_timestamps"', is_cooking, _whole(read_cooking)
    ),
    SplitFormat("QEVD", '"long_range_video_file" and "video_timestamps"', is_qevd, _read_workout),
    SplitFormat("DST clips", '"dst"', is_clip, _part(read_clip)),
    SplitFormat(
        "ProAssist dialogues",
        '"conversation" and "metadata"',
        lambda fields: fields.has("conversation"),
        _part(read_dialogue),
    ),
)
FORMAT_NAMES: Final = ("manifest", *(split_format.name for split_format in SPLIT_FORMATS))
"""Names of all formats that are read."""


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

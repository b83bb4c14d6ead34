"""Splits of annotated segments on the page: the files of data sets that ``stepscope annotations`` takes.

Their videos are looked up by name in the splits of the page, on a local page also beside the files. Missing ones stay
without a file, or are drawn.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepscope.app.core.references import check_turns
from stepscope.engine.io.files import digest_file
from stepscope.eval.data.loading import VideoFolder
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.datasets.importing import import_videos
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.segments import AnnotatedVideo, Annotations

DRAWN_SUFFIX: Final = ".drawn"
"""Ending of the folders with drawn videos."""
MAX_DRAWN_S: Final = 4 * 3600
"""Maximum length of the videos that are drawn for one split, in seconds; an hour takes about ten."""
MAX_FILES: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedSplit:
    """The samples that annotations give, and what was read, as one line."""

    entries: tuple[Sample | InvalidSample, ...]
    provenance: Mapping[str, Any]
    said: str


def find_annotations(files: Sequence[Path]) -> Annotations:
    """Return what annotation files have. Raises ``ValueError``, with ``UnknownFormError`` for files of other forms."""
    if len(files) > MAX_FILES:
        raise ValueError(f"{len(files)} files are chosen; choose at most {MAX_FILES}")
    try:
        return read_annotations(files)
    except ValueError as error:
        raise ValueError(str(error).replace(" --", " stepscope annotations --")) from error.__cause__


def make_split(
    found: Annotations,
    files: Sequence[Path],
    splits: Mapping[str, Split],
    *,
    videos: VideoFolder | None = None,
    draw_beside: Path | None = None,
) -> AnnotatedSplit:
    """Return the samples of annotations from ``files``, with the videos of ``videos`` or else of ``splits``.

    With ``draw_beside``, the path of the manifest, missing videos are drawn into a folder beside it. Raises
    ``ValueError`` if no video can be used.
    """
    known = {
        path.stem: path
        for split in splits.values()
        for sample in split.samples
        if sample.video_path is not None and (path := Path(os.path.realpath(sample.video_path))).is_file()
        if path.parent.suffix != DRAWN_SUFFIX  # of an earlier import
    }

    def find_file(video: AnnotatedVideo) -> Path | None:
        beside = None if videos is None else videos.find_named(video.names)
        return beside or next((known[name] for name in video.names if name in known), None)

    digests = {path.name: digest_file(path) for path in files if path.is_file()}
    digest = hashlib.sha256("".join(digests.values()).encode()).hexdigest()[:12]
    folder = None if draw_beside is None else draw_beside.with_name(f"{draw_beside.stem}-{digest}{DRAWN_SUFFIX}")
    result = import_videos(found, find_file, draw_in=folder, max_drawn_s=MAX_DRAWN_S)
    for sample in result.samples:
        check_turns(sample)
    invalid = [InvalidSample(video_id=name, reason=f"{name}: {reason}") for name, reason in result.problems.items()]
    provenance = {"annotations": {**result.provenance(), "files": digests}}
    return AnnotatedSplit(entries=(*result.samples, *invalid), provenance=provenance, said=result.describe())


def list_drawn(split: Split) -> set[Path]:
    """Return the folders of drawn videos of a stored split."""
    folders = {sample.video_path.parent for sample in split.samples if sample.video_path is not None}
    beside = split.path.resolve().parent
    return {folder for folder in folders if folder.suffix == DRAWN_SUFFIX and folder.parent.resolve() == beside}

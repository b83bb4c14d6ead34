"""Splits of annotated segments on the page: the files of data sets that ``stepscope annotations`` takes.

Their videos are looked up by name in the splits of the page, on a local page also beside the files. Missing ones stay
without a file, or are drawn.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


def digest_files(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 digest of each file by its name."""
    return {path.name: digest_file(path) for path in files if path.is_file()}


def name_drawn(kept: Path, files: Iterable[Path]) -> Path:
    """Return the folder for the drawn videos of a manifest from annotation files: beside it, named by both."""
    digest = hashlib.sha256("".join(digest_files(files).values()).encode()).hexdigest()
    return kept.with_name(f"{kept.stem}-{digest[:12]}{DRAWN_SUFFIX}")


def make_split(
    found: Annotations,
    files: Sequence[Path],
    splits: Mapping[str, Split],
    *,
    videos: VideoFolder | None = None,
    draw_in: Path | None = None,
) -> AnnotatedSplit:
    """Return the samples of annotations from ``files``, with the videos of ``videos`` or else of ``splits``.

    Missing videos are drawn into the folder ``draw_in``. Raises ``ValueError`` if no video can be used.
    """
    known = defaultdict[str, set[Path]](set)
    for sample in (sample for split in splits.values() for sample in split.samples if sample.video_path is not None):
        path = Path(os.path.realpath(str(sample.video_path)))
        if path.parent.suffix != DRAWN_SUFFIX and path.is_file():  # not of an earlier import
            known[path.stem].add(path)

    def find_file(video: AnnotatedVideo) -> Path | None:
        beside = None if videos is None else videos.find_named(video.names)
        options = next((known[name] for name in video.names if name in known), set())
        if beside is None and len(options) > 1:
            raise ValueError(f"several videos of the page are called {next(iter(options)).stem}; rename all but one")
        return beside or next(iter(options), None)

    result = import_videos(found, find_file, draw_in=draw_in, max_drawn_s=MAX_DRAWN_S)
    for sample in result.samples:
        check_turns(sample)
    invalid = [InvalidSample(video_id=name, reason=f"{name}: {reason}") for name, reason in result.problems.items()]
    provenance = {"annotations": {**result.provenance(), "files": digest_files(files)}}
    return AnnotatedSplit(entries=(*result.samples, *invalid), provenance=provenance, said=result.describe())


def list_drawn(split: Split) -> set[Path]:
    """Return the folders of drawn videos of a stored split."""
    folders = {sample.video_path.parent for sample in split.samples if sample.video_path is not None}
    beside = split.path.resolve().parent
    return {folder for folder in folders if folder.suffix == DRAWN_SUFFIX and folder.parent.resolve() == beside}

"""Splits of annotated segments on the page: the files of data sets that ``stepscope annotations`` takes."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepscope.engine.io.files import digest_file
from stepscope.eval.data.loading import VideoFolder
from stepscope.eval.data.samples import Split
from stepscope.eval.datasets.importing import ImportedVideos, import_videos
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.segments import AnnotatedVideo, Annotations

DRAWN_SUFFIX: Final = ".drawn"
"""Ending of the folders with drawn videos."""
MAX_DRAWN_S: Final = 4 * 3600
"""Maximum length of the videos that are drawn for one split, in seconds."""
MAX_FILES: Final = 2000


def find_annotations(files: Sequence[Path]) -> Annotations:
    """Return what annotation files have. Raises ``ValueError``, with ``UnknownFormError`` for files of other forms."""
    if len(files) > MAX_FILES:
        raise ValueError(f"{len(files)} files are chosen; choose at most {MAX_FILES}")
    try:
        return read_annotations(files)
    except ValueError as error:
        raise ValueError(str(error).replace(" --", " stepscope annotations --")) from error.__cause__


def make_samples(
    found: Annotations, splits: Mapping[str, Split], *, videos: VideoFolder | None, draw_in: Path | None
) -> ImportedVideos:
    """Return the samples of annotations, with the files of ``videos``, or else those of this name in ``splits``.

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

    return import_videos(found, find_file, draw_in=draw_in, max_drawn_s=MAX_DRAWN_S)


def name_drawn(kept: Path, files: Iterable[Path]) -> Path:
    """Return the folder for the drawn videos of a manifest: beside it, with a digest of the annotation files."""
    digests = "".join(digest_file(path) for path in files if path.is_file())
    return kept.with_name(f"{kept.stem}-{hashlib.sha256(digests.encode()).hexdigest()[:12]}{DRAWN_SUFFIX}")


def list_drawn(split: Split) -> set[Path]:
    """Return the folders of drawn videos of a stored split."""
    folders = {sample.video_path.parent for sample in split.samples if sample.video_path is not None}
    beside = split.path.resolve().parent
    return {folder for folder in folders if folder.suffix == DRAWN_SUFFIX and folder.parent.resolve() == beside}

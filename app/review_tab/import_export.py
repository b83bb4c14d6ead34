"""What leaves the desk as one file, and what comes back to it from ELAN."""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.exports.corrected_split import SplitSource, write_corrected_split
from app.exports.elan_edits import MissingTierError
from app.exports.folder import EXPORT_FORMS, ExportForm, import_eaf, write_export
from app.exports.tabulate import ReviewedVideo
from app.reviews.store import ReviewStore
from engine.errors import EngineError
from eval.data.samples import Sample, Split
from eval.data.writers import FILE_FORMATS, FileFormat, OptionalField

TABLES: Final[dict[str, ExportForm]] = {f"everything, as {form}": form for form in EXPORT_FORMS}
"""What can be had of a review, by what the page calls it."""
SPLITS: Final[dict[str, FileFormat]] = {f"corrected split, as {form}": form for form in FILE_FORMATS}
"""What can be had of the references as corrected."""
ALLOW_DELETIONS: Final = "Delete turns whose tier is missing"
_ENDINGS: Final[dict[FileFormat, str]] = {"manifest": "json", "dst": "json", "proassist": "jsonl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A file that was written."""

    path: Path
    """The zip file."""
    num_videos: int
    """Videos in it."""
    num_without_reference: int
    """Uploads that are left out of a corrected split, since the page has no reference of them."""
    num_conflicts: int
    """Corrections that reviewers differ on and no preferred one settles; there the source stands."""
    num_unusable: int
    """Corrections that do not fit the source any more."""
    problems: Mapping[str, str]
    """Per video whose outputs in the run cannot be read, why."""


def write_zip(
    folder: Path,
    videos: Sequence[ReviewedVideo],
    *,
    content: str,
    split: str,
    source: Split | None = None,
    without: Sequence[OptionalField] = (),
) -> Export:
    """Write what ``python -m app.exports`` writes, and zip it.

    Args:
        folder: An empty one.
        videos: What is known of the videos of the split.
        content: A name in ``TABLES`` or ``SPLITS``.
        split: What the split is called.
        source: The split; None for videos that are in none.
        without: What the corrected split leaves out; other content has it all.

    Raises ``ValueError`` for what the form cannot hold, and ``EngineError`` without a package that it needs.
    """
    form = TABLES.get(content) or SPLITS.get(content)
    if form is None:
        raise ValueError(f"there is no export of {content!r}; choose one from the list")
    name = re.sub(r"\W", "_", split)
    inside = folder / f"{name}-{form}"
    inside.mkdir()
    corrected = [found for video in videos if (found := video.corrected) is not None]
    if content in SPLITS:
        if not corrected:
            raise ValueError("there is no reference to correct; export everything that is said of these videos")
        path = inside / f"{name}.{_ENDINGS[SPLITS[content]]}"
        write_corrected_split(
            path,
            corrected,
            form=SPLITS[content],
            source=_describe_source(split, source),
            review=videos[0].review,
            prefer=videos[0].prefer,
            without=without,
            relative_to="split",
        )
    else:
        write_export(inside, videos, form=TABLES[content], split=name)
    path = Path(shutil.make_archive(str(inside), "zip", root_dir=folder, base_dir=inside.name))
    return Export(
        path=path,
        num_videos=len(corrected) if content in SPLITS else len(videos),
        num_without_reference=len(videos) - len(corrected) if content in SPLITS else 0,
        num_conflicts=sum(len(found.conflicts) for found in corrected),
        num_unusable=sum(len(found.unusable) for found in corrected),
        problems={video.video_id: video.problem for video in videos if video.problem},
    )


def _describe_source(name: str, source: Split | None) -> SplitSource:
    if source is None:
        return SplitSource(name=name)
    return SplitSource(name=source.path.name, path=source.path, digest=source.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of an ELAN document."""

    said: str
    """A sentence about it."""
    is_refused: bool
    """Whether nothing of it was kept, because it cannot be used."""


def take_eaf(
    path: Path, *, samples: Sequence[Sample], store: ReviewStore, reviewer: str, allow_deletions: bool
) -> Imported:
    """Keep what was changed in an ELAN document as corrections; return what became of it."""
    try:
        kept = import_eaf(path, samples=samples, store=store, reviewer=reviewer, allow_deletions=allow_deletions)
    except MissingTierError as error:
        said = f"{str(error).replace(str(path), path.name)}, or tick “{ALLOW_DELETIONS}” and choose the file again."
        return Imported(said=said, is_refused=True)
    except (EngineError, ValueError, OSError) as error:
        return Imported(said=f"{str(error).replace(str(path), path.name)}.", is_refused=True)
    num_deleted = sum(action.correction is not None and action.correction.kind == "delete" for action in kept)
    corrections = "1 correction is" if len(kept) == 1 else f"{len(kept)} corrections are"
    deletions = f"; deletions among them: {num_deleted}" if num_deleted else ""
    return Imported(said=f"{path.name}: {corrections} kept in the name of {reviewer}{deletions}.", is_refused=False)

"""What leaves the desk as one file, and what comes back to it from ELAN."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.exports.folder import EXPORT_FORMS, ExportForm, correct_samples, gather_videos, import_eaf, write_export
from app.reviews.review import Review
from app.reviews.store import ReviewStore
from engine.errors import EngineError
from eval.forms import FORMS, Detail, Form, write_samples
from eval.runs import RunFolder
from eval.samples import Sample

TABLES: Final[dict[str, ExportForm]] = {f"everything, as {form}": form for form in EXPORT_FORMS}
"""What can be had of a review, by what the page calls it."""
SPLITS: Final[dict[str, Form]] = {f"corrected split, as {form}": form for form in FORMS}
"""What can be had of the references as corrected."""
_ENDINGS: Final[dict[Form, str]] = {"manifest": "json", "dst": "json", "proassist": "jsonl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A file that was written."""

    path: Path
    """The zip file."""
    num_videos: int
    """Videos in it."""
    num_conflicts: int
    """Corrections that reviewers differ on and no preferred one settles; there the source stands."""
    num_unusable: int
    """Corrections that do not fit the source any more."""


def write_zip(
    folder: Path,
    samples: Sequence[Sample],
    *,
    content: str,
    split: str,
    review: Review,
    run: RunFolder | None = None,
    prefer: Sequence[str] = (),
    without: Sequence[Detail] = (),
) -> Export:
    """Write what ``python -m app.exports`` writes, and zip it.

    Args:
        folder: An empty one.
        samples: The references of the split.
        content: A name in ``TABLES`` or ``SPLITS``.
        split: What the split is called.
        review: What reviewers say.
        run: What the model did; None for the references alone.
        prefer: Whose corrections count in a conflict, best first.
        without: What the corrected split leaves out; other content has it all.

    Raises ``ValueError`` for what the form cannot hold, and ``EngineError`` without a package that it needs.
    """
    form = TABLES.get(content) or SPLITS.get(content)
    if form is None:
        raise ValueError(f"there is no export of {content!r}; choose one from the list")
    name = re.sub(r"\W", "_", split)
    inside = folder / f"{name}-{form}"
    inside.mkdir()
    corrected = correct_samples(samples, review=review, prefer=prefer)
    if content in SPLITS:
        path = inside / f"{name}.{_ENDINGS[SPLITS[content]]}"
        write_samples(path, [found.sample for found in corrected], form=SPLITS[content], without=without)
    else:
        videos = gather_videos(samples, review=review, run=run, prefer=prefer)
        write_export(inside, videos, form=TABLES[content], split=name)
    path = Path(shutil.make_archive(str(inside), "zip", root_dir=folder, base_dir=inside.name))
    return Export(
        path=path,
        num_videos=len(corrected),
        num_conflicts=sum(len(found.conflicts) for found in corrected),
        num_unusable=sum(len(found.unusable) for found in corrected),
    )


def take_eaf(path: Path, *, samples: Sequence[Sample], store: ReviewStore, reviewer: str) -> str:
    """Keep what was changed in an ELAN document as corrections; return a sentence about it or about its refusal."""
    try:
        num_kept = len(import_eaf(path, samples=samples, store=store, reviewer=reviewer))
    except (EngineError, ValueError, OSError) as error:
        return f"{str(error).replace(str(path), path.name)}."
    corrections = "1 correction is" if num_kept == 1 else f"{num_kept} corrections are"
    return f"{path.name}: {corrections} kept in the name of {reviewer}."

"""A query of the reviews tab, the data that it selects, its export as a zip file, and imports from ELAN.

A query is a split, a run of it and a reviewer. In blind mode only the reviewer's own actions are read from the store.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.exports.corrected_split import write_corrected_split
from stepscope.app.exports.elan_edits import MissingTierError
from stepscope.app.exports.folder import gather_videos, import_eaf
from stepscope.app.exports.formats import EXPORT_FORMATS, write_export
from stepscope.app.exports.rows import ReviewedVideo, explain_no_predictions
from stepscope.app.review_store.review import Review
from stepscope.app.review_store.store import ReviewStore, read_review
from stepscope.app.reviews.summary import SplitReview, summarize, summarize_unsplit
from stepscope.app.server.identity import reviewer_of, signed_in, typed_name
from stepscope.app.window.context import ReviewContext
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.data.writers import FILE_FORMATS, WRITTEN_FORMATS, FileFormat, OptionalField
from stepscope.eval.runs.folder import RunFolder

NO_RUN = ""
"""Value of the choice without a run: the references only."""
UNSPLIT = ":uploads"
"""Value of the choice of uploads; a colon is in no name of a split."""
NO_NAME = "write your name in Reviewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQuery:
    """The inputs of the tab: components in its layout, values in its handlers (``app.controls.widgets``)."""

    split: Any
    run: Any
    """Name of a run of the split; None or ``NO_RUN`` for the references only."""
    typed: Any
    """The reviewer's name as typed; ignored for a signed-in user."""
    is_blind: Any
    request: Any = None
    """The ``gr.Request``, which identifies a signed-in user; None in the layout."""

    @property
    def name(self) -> str:
        """The name of the reviewer; empty without one."""
        return signed_in(self.request) or typed_name(self.typed)


def read_visible_review(reviews: ReviewContext, query: ReviewQuery) -> tuple[bool, Review]:
    """Return whether blind mode is on, and the reviews that may be shown; in blind mode none without a name."""
    is_blind = reviews.is_blind or query.is_blind
    own = reviewer_of(query.request, query.typed) if query.name else ""
    return is_blind, read_review(reviews.store, only=own if is_blind else None)


def find_split(reviews: ReviewContext, query: ReviewQuery) -> Split:
    """Return the split of the query. Raises ``ValueError`` if there is none."""
    if query.split == UNSPLIT:
        raise ValueError("uploads are in no split; choose the split of the videos")
    split = reviews.splits.get(query.split or "")
    if split is None:
        raise ValueError("there is no split to review; add one in Batch, under Another split")
    return split


def summarize_query(reviews: ReviewContext, query: ReviewQuery, review: Review, **of_run: Any) -> SplitReview:
    """Return the summary of the split's reviews; ``of_run`` are ``run`` and ``judge`` of ``summarize``."""
    if query.split == UNSPLIT:
        names = reviews.list_unsplit(review, user=signed_in(query.request))
        return summarize_unsplit(names, review, samples=[sample for sample in map(reviews.sample, names) if sample])
    return summarize(find_split(reviews, query).samples, review, **of_run)


def gather_query_videos(
    batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, review: Review, prefer: Sequence[str]
) -> tuple[ReviewedVideo, ...]:
    """Return the outputs, references and reviews of the videos of the split."""
    if query.split == UNSPLIT:
        names = reviews.list_unsplit(review, user=signed_in(query.request))
        return tuple(_gather_upload(reviews, name, review, prefer) for name in names)
    return gather_videos(find_split(reviews, query).samples, review=review, run=find_run(batches, query), prefer=prefer)


def _gather_upload(reviews: ReviewContext, video_id: str, review: Review, prefer: Sequence[str]) -> ReviewedVideo:
    sample = reviews.sample(video_id)
    if sample is None:
        return ReviewedVideo(video_id=video_id, duration_s=0.0, review=review)
    return gather_videos([sample], review=review, prefer=prefer)[0]


def find_run(batches: BatchContext, query: ReviewQuery) -> RunFolder | None:
    """Return the run of the query; None without a run. Raises ``ValueError`` if it does not exist."""
    return batches.need_run(query.run) if query.run else None


REVIEW_EXPORTS: Final[dict[str, str]] = {f"everything, as {form}": form for form in EXPORT_FORMATS}
SPLIT_EXPORTS: Final[dict[str, FileFormat]] = {f"corrected split, as {form}": form for form in FILE_FORMATS}
ALLOW_DELETIONS: Final = "Delete turns whose tier is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A zip file of an export, and its contents."""

    path: Path
    num_videos: int
    num_without_reference: int
    """Number of uploads that a corrected split omits because the page has no reference for them."""
    num_conflicts: int
    """Number of unresolved conflicts between corrections; these turns are exported as in the source."""
    num_unusable: int
    """Number of corrections that no longer fit the source."""
    problems: Mapping[str, str]
    """Errors of reading the outputs of the run, by video."""
    no_predictions: str = ""
    """Why it has no predictions; empty if it has any, or is a corrected split."""


def write_zip(
    folder: Path,
    videos: Sequence[ReviewedVideo],
    *,
    content: str,
    split: str,
    source: Split | None = None,
    omit: Sequence[OptionalField] = (),
) -> Export:
    """Write an export of ``stepscope export``, and zip it.

    ``content`` is a name in ``REVIEW_EXPORTS`` or ``SPLIT_EXPORTS``; the former ignore ``omit``. ``source`` is None for
    videos that are in no split.

    Raises ``ValueError`` for data that the format cannot represent, and ``EngineError`` if a package is missing.
    """
    file_format = REVIEW_EXPORTS.get(content) or SPLIT_EXPORTS.get(content)
    if file_format is None:
        raise ValueError(f"unknown export {content!r}; choose one from the list")
    name = re.sub(r"\W", "_", split)
    inside = folder / f"{name}-{file_format}"
    inside.mkdir()
    corrected = [found for video in videos if (found := video.corrected) is not None]
    if content in SPLIT_EXPORTS:
        if not corrected:
            raise ValueError("these videos have no reference to correct; export everything instead")
        path = inside / f"{name}{WRITTEN_FORMATS[SPLIT_EXPORTS[content]].suffix}"
        write_corrected_split(
            path,
            corrected,
            file_format=SPLIT_EXPORTS[content],
            source=source or split,
            review=videos[0].review,
            prefer=videos[0].prefer,
            omit=omit,
            relative_to="split",
        )
    else:
        write_export(inside, videos, file_format=REVIEW_EXPORTS[content], split=name)
    path = Path(shutil.make_archive(str(inside), "zip", root_dir=folder, base_dir=inside.name))
    return Export(
        path=path,
        num_videos=len(corrected) if content in SPLIT_EXPORTS else len(videos),
        num_without_reference=len(videos) - len(corrected) if content in SPLIT_EXPORTS else 0,
        num_conflicts=sum(len(found.conflicts) for found in corrected),
        num_unusable=sum(len(found.unusable) for found in corrected),
        problems={video.video_id: video.problem for video in videos if video.problem},
        no_predictions="" if content in SPLIT_EXPORTS else explain_no_predictions(videos),
    )


def import_document(
    path: Path, *, samples: Sequence[Sample], store: ReviewStore, reviewer: str, is_blind: bool, allow_deletions: bool
) -> str:
    """Store the changes of an edited ELAN document as corrections; return the outcome as a sentence.

    Raises ``ValueError`` with a sentence if the document is refused; then nothing was stored.
    """
    try:
        rules = {"is_blind": is_blind, "allow_deletions": allow_deletions}
        kept = import_eaf(path, samples=samples, store=store, reviewer=reviewer, **rules)
    except (EngineError, ValueError, OSError) as error:
        is_missing = isinstance(error, MissingTierError)
        remedy = f", or tick “{ALLOW_DELETIONS}” and choose the file again" if is_missing else ""
        raise ValueError(f"{str(error).replace(str(path), path.name)}{remedy}.") from error
    num_deleted = sum(action.correction is not None and action.correction.kind == "delete" for action in kept)
    corrections = format_count(len(kept), "correction was", "corrections were")
    deletions = f" (deletions: {num_deleted})" if num_deleted else ""
    return f"{path.name}: {corrections} imported for {reviewer}{deletions}."

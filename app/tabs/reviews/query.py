"""A query of the reviews tab: a split, a run of it and a reviewer, and the data that it selects.

In blind mode only the reviewer's own actions are read from the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.app.context import ReviewContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.tabulate import ReviewedVideo
from stepscope.app.reviews.history import read_review
from stepscope.app.reviews.review import Review
from stepscope.app.security.identity import reviewer_of, signed_in
from stepscope.app.tabs.reviews.summary import SplitReview, summarize, summarize_unsplit
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.folder import RunFolder

NO_RUN = ""
"""Value of the choice without a run: the references only."""
UNSPLIT = ":uploads"
"""Value of the choice of uploads; a colon is in no name of a split."""
NO_SPLIT = "there is no split to review; start the page with --split FILE"
NO_NAME = "write your name in Reviewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQuery:
    """The inputs of the tab."""

    split: str | None
    """Name of the split, or ``UNSPLIT``."""
    run: str | None
    """Name of a run of the split; None or ``NO_RUN`` for the references only."""
    typed: str
    """The reviewer's name as typed; ignored for a signed-in user."""
    is_blind: bool
    """Whether the window is in blind mode."""
    request: Any
    """The ``gr.Request``, which identifies a signed-in user."""


def read_visible_review(reviews: ReviewContext, query: ReviewQuery) -> tuple[bool, Review]:
    """Return whether blind mode is on, and the reviews that may be shown; in blind mode none without a name."""
    is_blind = reviews.is_blind or query.is_blind
    has_name = signed_in(query.request) or query.typed.strip()
    own = reviewer_of(query.request, query.typed) if has_name else ""
    return is_blind, read_review(reviews.store, only=own if is_blind else None)


def find_split(reviews: ReviewContext, query: ReviewQuery) -> Split:
    """Return the split of the query. Raises ``ValueError`` if there is none."""
    if query.split == UNSPLIT:
        raise ValueError("documents of uploads cannot be imported; choose the split of the document's video")
    split = reviews.splits.get(query.split or "")
    if split is None:
        raise ValueError(NO_SPLIT)
    return split


def summarize_query(reviews: ReviewContext, query: ReviewQuery, review: Review, **of_run: Any) -> SplitReview:
    """Return the summary of the split's reviews; ``of_run`` are ``run`` and ``judge`` of ``summarize``."""
    if query.split == UNSPLIT:
        names = reviews.list_unsplit(review)
        return summarize_unsplit(names, review, samples=[sample for sample in map(reviews.sample, names) if sample])
    return summarize(find_split(reviews, query).samples, review, **of_run)


def gather_query_videos(
    batches: BatchContext, reviews: ReviewContext, query: ReviewQuery, review: Review, prefer: Sequence[str]
) -> tuple[ReviewedVideo, ...]:
    """Return the outputs, references and reviews of the videos of the split."""
    if query.split == UNSPLIT:
        return tuple(_gather_upload(reviews, name, review, prefer) for name in reviews.list_unsplit(review))
    return gather_videos(find_split(reviews, query).samples, review=review, run=find_run(batches, query), prefer=prefer)


def _gather_upload(reviews: ReviewContext, video_id: str, review: Review, prefer: Sequence[str]) -> ReviewedVideo:
    sample = reviews.sample(video_id)
    if sample is None:
        return ReviewedVideo(video_id=video_id, duration_s=0.0, review=review)
    return gather_videos([sample], review=review, prefer=prefer)[0]


def find_run(batches: BatchContext, query: ReviewQuery) -> RunFolder | None:
    """Return the run of the query; None without a run. Raises ``ValueError`` if it does not exist."""
    if not query.run:
        return None
    if query.run not in batches.run_names():
        raise ValueError(f"there is no run {query.run!r}; choose one from the list")
    return RunFolder(batches.folder(query.run))

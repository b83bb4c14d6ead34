"""What the reviews tab asks about: a split and a run of it, in the name of a reviewer, and what is read for it.

In blind mode the store is read for one reviewer only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.batch.context import Batches
from app.exports.folder import gather_videos
from app.exports.tabulate import ReviewedVideo
from app.identity import reviewer_of, signed_in
from app.player.review_context import Desk
from app.review_tab.summary import SplitReview, summarize, summarize_unsplit
from app.reviews.history import read_review
from app.reviews.review import Review
from eval.data.samples import Split
from eval.runs.folder import RunFolder

NO_RUN = ""
"""The choice of no run: the references alone."""
UNSPLIT = ":uploads"
"""The choice of what is in no split; no file is called so."""
NO_SPLIT = "there is no split to review; start the page with --split FILE"
NO_NAME = "write your name in Reviewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the page asks about, and for whom."""

    split: str | None
    """Name of the split, or ``UNSPLIT``."""
    run: str | None
    """Name of a run of it; ``NO_RUN`` for the references alone."""
    typed: str
    """What stands in the box of the reviewer's name."""
    is_blind: bool
    """Whether the box is ticked."""
    request: Any
    """Who asks."""


def read_asked(desk: Desk, asked: Asked) -> tuple[bool, Review]:
    """Return whether the reviewer is blind, and what may be shown; in blind mode nothing without a name."""
    is_blind = desk.is_blind or asked.is_blind
    has_name = signed_in(asked.request) or asked.typed.strip()
    own = reviewer_of(asked.request, asked.typed) if has_name else ""
    return is_blind, read_review(desk.store, only=own if is_blind else None)


def find_split(desk: Desk, asked: Asked) -> Split:
    """Return the split that is asked about. Raises ``ValueError`` where there is none."""
    if asked.split == UNSPLIT:
        raise ValueError("documents of uploads cannot be imported; choose the split of the document's video")
    split = desk.splits.get(asked.split or "")
    if split is None:
        raise ValueError(NO_SPLIT)
    return split


def summarize_asked(desk: Desk, asked: Asked, review: Review, **of_run: Any) -> SplitReview:
    """Put together what is said of the split; ``of_run`` as for ``summarize``."""
    if asked.split == UNSPLIT:
        names = desk.list_unsplit(review)
        return summarize_unsplit(names, review, samples=[sample for sample in map(desk.sample, names) if sample])
    return summarize(find_split(desk, asked).samples, review, **of_run)


def gather_asked(
    batches: Batches, desk: Desk, asked: Asked, review: Review, prefer: Sequence[str]
) -> tuple[ReviewedVideo, ...]:
    """Return what is known of the videos of the split."""
    if asked.split == UNSPLIT:
        return tuple(_gather_upload(desk, name, review, prefer) for name in desk.list_unsplit(review))
    return gather_videos(find_split(desk, asked).samples, review=review, run=find_run(batches, asked), prefer=prefer)


def _gather_upload(desk: Desk, video_id: str, review: Review, prefer: Sequence[str]) -> ReviewedVideo:
    sample = desk.sample(video_id)
    if sample is None:
        return ReviewedVideo(video_id=video_id, duration_s=0.0, review=review)
    return gather_videos([sample], review=review, prefer=prefer)[0]


def find_run(batches: Batches, asked: Asked) -> RunFolder | None:
    """Return the run that is asked about; None for the references alone. Raises ``ValueError`` for an unknown one."""
    if not asked.run:
        return None
    if asked.run not in batches.names():
        raise ValueError(f"there is no run {asked.run!r}; choose one from the list")
    return RunFolder(batches.runs / asked.run)

"""The review store and the reviewed references, which all windows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.app.core.places import RecentSessions
from stepscope.app.reviews.review import Review
from stepscope.app.reviews.store import ReviewStore
from stepscope.eval.data.samples import Sample, Split


@dataclass(frozen=True, kw_only=True)
class ReviewContext:
    """The parts of reviewing that all windows share; only the contents of the store change."""

    store: ReviewStore
    """Where actions are kept."""
    splits: Mapping[str, Split]
    """The reviewed splits, by name."""
    recent: RecentSessions = field(default_factory=RecentSessions)
    """Uploads, with the references that they were given."""
    is_blind: bool = False
    """Whether the opinions of others are hidden from everyone; otherwise each reviewer chooses."""

    def split_of(self, video_id: str) -> str | None:
        """Return the name of the first split that holds a video."""
        return next((name for name, split in self.splits.items() if _find(split, video_id)), None)

    def sample(self, video_id: str, *, reference: str | None = None) -> Sample | None:
        """Return the source's reference of a video; of an upload the one that it was given, None without one.

        ``reference`` is its digest, of an upload that windows show with several; without it the last one is returned.
        """
        name = self.split_of(video_id)
        return _find(self.splits[name], video_id) if name else self.recent.find_reference(video_id, reference)

    def list_unsplit(self, review: Review) -> tuple[str, ...]:
        """Return the videos with reviews that are in no split, such as uploads, by name."""
        spoken_of = {found.event.video_id for found in review.events} | review.corrections.keys()
        return tuple(sorted(video_id for video_id in spoken_of if self.split_of(video_id) is None))


def _find(split: Split, video_id: str) -> Sample | None:
    return next((sample for sample in split.samples if sample.video_id == video_id), None)

"""What a page does for a reviewer: read the present state, keep a verdict, take it back, bring it back.

Each of these returns when the action is on disk; what it returns is what may be shown as saved.
"""

from app.reviews.actions import Action, Event, Moment, Verdict
from app.reviews.review import Review, find_redo, find_undo, fold_actions
from app.reviews.store import ReviewStore
from eval.corrections import Correction


def read_review(store: ReviewStore, *, video_id: str | None = None, only: str | None = None) -> Review:
    """Return the present state of a video or of all; with ``only`` as that reviewer sees it in blind mode."""
    return fold_actions(store.read(video_id=video_id), only=only)


def give_verdict(store: ReviewStore, event: Event, verdict: Verdict | None, *, reviewer: str, moment: Moment) -> Action:
    """Keep a verdict on an event; None takes it back. Raises ``StoreError`` when it is not kept."""
    return store.append(
        Action(kind="verdict", reviewer=reviewer, video_id=event.video_id, event=event, verdict=verdict, moment=moment)
    )


def give_tags(store: ReviewStore, event: Event, tags: tuple[str, ...], *, reviewer: str, moment: Moment) -> Action:
    """Keep all tags of an event. Raises ``StoreError`` when they are not kept."""
    return store.append(
        Action(kind="tags", reviewer=reviewer, video_id=event.video_id, event=event, tags=tags, moment=moment)
    )


def give_note(store: ReviewStore, event: Event, note: str, *, reviewer: str, moment: Moment) -> Action:
    """Keep the note of an event. Raises ``StoreError`` when it is not kept."""
    return store.append(
        Action(kind="note", reviewer=reviewer, video_id=event.video_id, event=event, note=note, moment=moment)
    )


def give_correction(store: ReviewStore, correction: Correction, *, video_id: str, moment: Moment) -> Action:
    """Keep a correction, in its reviewer's name; ``eval.corrections.check_correction`` says whether it fits.

    Raises ``StoreError`` when it is not kept.
    """
    return store.append(
        Action(kind="correction", reviewer=correction.reviewer, video_id=video_id, correction=correction, moment=moment)
    )


def undo(store: ReviewStore, *, reviewer: str, video_id: str) -> Action | None:
    """Take back the reviewer's last action in a video that counts, and return that one; None when there is none."""
    target = find_undo(store.read(video_id=video_id), reviewer=reviewer, video_id=video_id)
    if target is not None:
        store.append(Action(kind="undo", reviewer=reviewer, video_id=video_id, target=target.action_id))
    return target


def redo(store: ReviewStore, *, reviewer: str, video_id: str) -> Action | None:
    """Bring back what was taken back last, and return it; None when there is nothing."""
    target = find_redo(store.read(video_id=video_id), reviewer=reviewer, video_id=video_id)
    if target is not None:
        store.append(Action(kind="redo", reviewer=reviewer, video_id=video_id, target=target.action_id))
    return target

"""Read the current state of a review from a store, and undo or redo a reviewer's last action.

Undo and redo return after the store has committed them.
"""

from dataclasses import replace
from typing import Literal
from uuid import uuid4

from app.reviews.actions import Action
from app.reviews.review import Review, find_redo, find_undo, fold_actions
from app.reviews.store import ReviewStore


def read_review(store: ReviewStore, *, video_id: str | None = None, only: str | None = None) -> Review:
    """Return the current state of one video or of all videos.

    With ``only``, the state contains that reviewer's actions alone (blind mode).
    """
    stored = store.scan(video_id=video_id)
    return replace(fold_actions(stored.actions, only=only), unreadable=stored.unreadable)


def undo(
    store: ReviewStore, *, reviewer: str, video_id: str, action_id: str | None = None, target: str | None = None
) -> Action | None:
    """Undo the reviewer's last effective action in a video; return it, or None if nothing can be undone.

    Args:
        store: The store of actions.
        reviewer: Name of the reviewer.
        video_id: The video.
        action_id: Id of the undo itself. A repeated call with a stored id returns the same result.
        target: Undo only this action, if it is effective.

    Raises ``ValueError`` if a different action has the id ``action_id``.
    """
    return _move("undo", store, reviewer=reviewer, video_id=video_id, action_id=action_id, target=target)


def redo(
    store: ReviewStore, *, reviewer: str, video_id: str, action_id: str | None = None, target: str | None = None
) -> Action | None:
    """Redo the action that was undone last; return it, or None if nothing can be redone. Arguments as for ``undo``."""
    return _move("redo", store, reviewer=reviewer, video_id=video_id, action_id=action_id, target=target)


def _move(
    kind: Literal["undo", "redo"],
    store: ReviewStore,
    *,
    reviewer: str,
    video_id: str,
    action_id: str | None,
    target: str | None,
) -> Action | None:
    actions = {action.action_id: action for action in store.read(video_id=video_id)}
    if action_id in actions:
        before = actions[action_id]
        if (before.kind, before.reviewer) != (kind, reviewer) or target not in (None, before.target):
            raise ValueError(f"another action has the action_id {action_id!r}; use a new id")
        return actions.get(before.target or "")
    find = {"undo": find_undo, "redo": find_redo}[kind]
    found = find(actions.values(), reviewer=reviewer, video_id=video_id, target=target)
    if found is not None:
        name = action_id or uuid4().hex
        store.append(Action(kind=kind, reviewer=reviewer, video_id=video_id, target=found.action_id, action_id=name))
    return found

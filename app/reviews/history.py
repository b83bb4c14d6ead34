"""Read the current state of a review from a store, and undo or redo a reviewer's last action.

Undo and redo return after the store has committed them.
"""

from dataclasses import replace
from functools import partial
from typing import Literal
from uuid import uuid4

from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.review import Review, find_movable, fold_actions
from stepscope.app.reviews.store import ReviewStore


def read_review(store: ReviewStore, *, video_id: str | None = None, only: str | None = None) -> Review:
    """Return the current state of one video or of all videos.

    With ``only``, the state contains that reviewer's actions alone (blind mode).
    """
    stored = store.scan(video_id=video_id)
    return replace(fold_actions(stored.actions, only=only), unreadable=stored.unreadable)


def _move(
    kind: Literal["undo", "redo"],
    store: ReviewStore,
    *,
    reviewer: str,
    video_id: str,
    action_id: str | None = None,
    target: str | None = None,
) -> Action | None:
    actions = {action.action_id: action for action in store.read(video_id=video_id)}
    if action_id in actions:
        before = actions[action_id]
        if (before.kind, before.reviewer) != (kind, reviewer) or target not in (None, before.target):
            raise ValueError(f"another action has the action_id {action_id!r}; use a new id")
        return actions.get(before.target or "")
    found = find_movable(kind, actions.values(), reviewer=reviewer, video_id=video_id, target=target)
    if found is not None:
        name = action_id or uuid4().hex
        store.append(Action(kind=kind, reviewer=reviewer, video_id=video_id, target=found.action_id, action_id=name))
    return found


undo = partial(_move, "undo")
"""Undo the reviewer's last effective action in a video, or only ``target``; return it, or None if there is none.

``action_id`` is the id of the undo itself: a repeated call with a stored id returns the same result. Raises
``ValueError`` if a different action has this id.
"""
redo = partial(_move, "redo")
"""Redo the action that was undone last; return it, or None if there is none. Arguments and errors as for ``undo``."""

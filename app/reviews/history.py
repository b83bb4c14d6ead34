"""The present state of a review in a store, and what a reviewer did last taken back and brought back.

Undo and redo return when they are on disk; what they return is what may be shown as done.
"""

from dataclasses import replace
from typing import Literal
from uuid import uuid4

from app.reviews.actions import Action
from app.reviews.review import Review, find_redo, find_undo, fold_actions
from app.reviews.store import ReviewStore


def read_review(store: ReviewStore, *, video_id: str | None = None, only: str | None = None) -> Review:
    """Return the present state of a video or of all; with ``only`` as that reviewer sees it in blind mode."""
    stored = store.scan(video_id=video_id)
    return replace(fold_actions(stored.actions, only=only), unreadable=stored.unreadable)


def undo(
    store: ReviewStore, *, reviewer: str, video_id: str, action_id: str | None = None, target: str | None = None
) -> Action | None:
    """Take back the reviewer's last action in a video that counts, and return that one; None when there is none.

    Args:
        store: Where the actions are.
        reviewer: Whose.
        video_id: In which video.
        action_id: The undo's own name; one that is in the store already was asked for twice, and says the same again.
        target: Takes back this action and no other.

    Raises ``ValueError`` when another action has the name ``action_id``.
    """
    return _move("undo", store, reviewer=reviewer, video_id=video_id, action_id=action_id, target=target)


def redo(
    store: ReviewStore, *, reviewer: str, video_id: str, action_id: str | None = None, target: str | None = None
) -> Action | None:
    """Bring back what was taken back last, and return it; None when there is nothing. As ``undo`` otherwise."""
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
            raise ValueError(f"another action has the action_id {action_id!r}; give this one a name of its own")
        return actions.get(before.target or "")
    find = {"undo": find_undo, "redo": find_redo}[kind]
    found = find(actions.values(), reviewer=reviewer, video_id=video_id, target=target)
    if found is not None:
        name = action_id or uuid4().hex
        store.append(Action(kind=kind, reviewer=reviewer, video_id=video_id, target=found.action_id, action_id=name))
    return found

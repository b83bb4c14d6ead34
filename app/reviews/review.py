"""The present state of a review: a fold over its actions, in the order of the store.

Of each reviewer the last verdict, tags and note on an event count; those of several reviewers stand side by side.
What is said of a matched pair counts for both of its events, until one of them is judged alone or in another pair.
Undo and redo go through one reviewer's actions in one video: undo takes back the last that counts, redo brings back
the last that was taken back, and a new action ends redoing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from app.reviews.actions import VERDICTS, Action, Event, Verdict
from eval.annotations.agreement import Agreement, Disagreement, Rating, list_disagreements, measure_agreement
from eval.annotations.corrections import Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What one reviewer says of one event."""

    reviewer: str
    """Who."""
    verdict: Verdict | None = None
    """The verdict; None when there is none."""
    tags: tuple[str, ...] = ()
    """The tags."""
    note: str = ""
    """The note."""
    paired_with: Mapping[str, str] = field(default_factory=dict)
    """By part, ``verdict``, ``tags`` or ``note``: the key of the other event that it was given to at once, if any."""
    action: Action | None = None
    """The last action that it follows from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReview:
    """What is said of one event."""

    event: Event
    """The event."""
    opinions: tuple[Opinion, ...]
    """One per reviewer, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCorrection:
    """A correction with the time at which it was given."""

    correction: Correction
    """The correction."""
    at: datetime
    """When, in UTC."""
    is_undone: bool
    """Whether its reviewer has taken it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The present state."""

    events: tuple[EventReview, ...]
    """In the order in which they were first spoken of."""
    corrections: Mapping[str, tuple[Correction, ...]]
    """Corrections that count, by video, oldest first."""
    given: Mapping[str, tuple[GivenCorrection, ...]] = field(default_factory=dict, compare=False)
    """All corrections by video, also those that were undone, oldest first."""
    last_action: str = field(default="", compare=False)
    """The action up to which this is the state; empty when there was none."""
    only: str | None = None
    """Whose actions alone were looked at (blind mode); None for everybody's."""
    unreadable: tuple[str, ...] = field(default=(), compare=False)
    """Rows of the store that are left out because they cannot be read, a line each."""


def fold_actions(actions: Iterable[Action], *, only: str | None = None) -> Review:
    """Return the present state; with ``only`` as that reviewer sees it who must not see the others' (blind mode)."""
    listed = [action for action in actions if only is None or action.reviewer == only]
    counting = {action.action_id for history in _histories(listed).values() for action in history.done}
    events: dict[str, Event] = {}
    opinions: dict[str, dict[str, Opinion]] = defaultdict(dict)
    given: dict[str, list[GivenCorrection]] = defaultdict(list)
    for action in listed:
        is_undone = action.action_id not in counting
        if action.correction is not None:
            made = GivenCorrection(correction=action.correction, at=action.at, is_undone=is_undone)
            given[action.video_id].append(made)
        elif is_undone:
            continue
        elif action.event is not None:
            for event, other in _sides(action.event, action.paired):
                events.setdefault(event.key, event)
                said = opinions[event.key].get(action.reviewer, Opinion(reviewer=action.reviewer))
                opinions[event.key][action.reviewer] = _apply(said, action, other)
    return Review(
        events=tuple(
            EventReview(event=event, opinions=tuple(said for _, said in sorted(opinions[key].items())))
            for key, event in events.items()
        ),
        corrections={
            video_id: counted
            for video_id, found in given.items()
            if (counted := tuple(made.correction for made in found if not made.is_undone))
        },
        given={video_id: tuple(found) for video_id, found in given.items()},
        last_action=listed[-1].action_id if listed else "",
        only=only,
    )


def find_undo(actions: Iterable[Action], *, reviewer: str, video_id: str, target: str | None = None) -> Action | None:
    """Return the action that an undo would take back, the ``target`` alone if there is one; None when there is none."""
    return _last(_histories(actions)[reviewer, video_id].done, target)


def find_redo(actions: Iterable[Action], *, reviewer: str, video_id: str, target: str | None = None) -> Action | None:
    """Return the action that a redo would bring back, the ``target`` alone if there is one; None when there is none."""
    return _last(_histories(actions)[reviewer, video_id].undone, target)


def review_agreement(review: Review) -> tuple[Agreement, ...]:
    """Return how far reviewers agree, over all verdicts and on each."""
    return measure_agreement(_ratings(review), verdicts=VERDICTS)


def review_disagreements(review: Review) -> tuple[tuple[Event, Disagreement], ...]:
    """Return the events that reviewers do not agree on, to be settled."""
    events = {found.event.key: found.event for found in review.events}
    return tuple((events[differing.item], differing) for differing in list_disagreements(_ratings(review)))


@dataclass(slots=True, kw_only=True)
class _History:
    done: list[Action] = field(default_factory=list)
    undone: list[Action] = field(default_factory=list)


def _histories(actions: Iterable[Action]) -> defaultdict[tuple[str, str], _History]:
    """Return by reviewer and video what counts and what was taken back."""
    histories: defaultdict[tuple[str, str], _History] = defaultdict(_History)
    for action in actions:
        history = histories[action.reviewer, action.video_id]
        if action.kind == "undo":
            _move(action.target, history.done, history.undone)
        elif action.kind == "redo":
            _move(action.target, history.undone, history.done)
        else:
            history.done.append(action)
            history.undone.clear()
    return histories


def _last(actions: Sequence[Action], target: str | None) -> Action | None:
    return next((action for action in reversed(actions) if target in (None, action.action_id)), None)


def _move(target: str | None, source: list[Action], sink: list[Action]) -> None:
    """Move an action; one that is not there was moved before, by another window of the same reviewer."""
    found = next((action for action in reversed(source) if action.action_id == target), None)
    if found is not None:
        source.remove(found)
        sink.append(found)


def _sides(event: Event, paired: Event | None) -> tuple[tuple[Event, Event | None], ...]:
    """Return the events that an action is about, each with the other one of its pair."""
    return ((event, None),) if paired is None else ((event, paired), (paired, event))


def _apply(said: Opinion, action: Action, other: Event | None) -> Opinion:
    paired_with = {part: key for part, key in said.paired_with.items() if part != action.kind}
    if other is not None:
        paired_with[action.kind] = other.key
    said = replace(said, paired_with=paired_with, action=action)
    if action.kind == "verdict":
        return replace(said, verdict=action.verdict)
    return replace(said, tags=action.tags) if action.kind == "tags" else replace(said, note=action.note)


def count_once(review: Review) -> tuple[EventReview, ...]:
    """Return the events with the verdicts on them; one on a pair only with the event that the model wrote."""
    given = {(found.event.key, said.reviewer): said for found in review.events for said in found.opinions}
    counted = []
    for found in review.events:
        kept = tuple(said for said in found.opinions if not _is_counted_with_pair(found.event, said, given))
        counted.append(replace(found, opinions=kept))
    return tuple(counted)


def _is_counted_with_pair(event: Event, said: Opinion, given: Mapping[tuple[str, str], Opinion]) -> bool:
    """Whether this is the verdict on the reference of a pair, and the pair's other event still has it."""
    other = given.get((said.paired_with.get("verdict", ""), said.reviewer))
    return event.kind == "reference" and other is not None and other.paired_with.get("verdict") == event.key


def _ratings(review: Review) -> list[Rating]:
    """Return the verdicts by item: an event, or a pair, as long as all who judged its reference judged that pair."""
    counted = {
        found.event.key for found in count_once(review) if any(said.verdict is not None for said in found.opinions)
    }
    return [
        Rating(item=found.event.key, reviewer=said.reviewer, verdict=said.verdict)
        for found in review.events
        if found.event.key in counted or len({said.paired_with.get("verdict") for said in found.opinions}) > 1
        for said in found.opinions
        if said.verdict is not None
    ]

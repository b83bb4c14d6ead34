"""The current state of a review: a fold over its actions. Reviewers never overwrite each other.

An action on a matched pair applies to both events, until the reviewer judges one of them alone or in a different pair.
Undo and redo have one stack per reviewer and video: A, B, undo leaves A; redo gives A, B; A, B, undo, C gives A, C.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Literal

from stepscope.app.review_store.actions import Action, Event, is_program
from stepscope.eval.annotations.agreement import Agreement, Disagreement, Rating, list_disagreements, measure_agreement
from stepscope.eval.annotations.corrections import VERDICTS, Correction, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """The current verdict, tags and note of one reviewer on one event."""

    reviewer: str
    verdict: Verdict | None = None
    confidence: float | None = None
    """Of the verdict of a program, in [0, 1]."""
    tags: tuple[str, ...] = ()
    note: str = ""
    paired_with: Mapping[str, str] = field(default_factory=dict)
    """Key of the matched event, by part (``verdict``, ``tags``, ``note``), for parts that were given to a pair."""
    action: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReview:
    """All opinions on one event."""

    event: Event
    opinions: tuple[Opinion, ...]
    """One per reviewer, sorted by name."""
    final: Verdict | None = None
    """The final verdict, which a reviewer gave to settle the event; None for an event that is not settled."""
    settled_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCorrection:
    """A correction in the log of a video."""

    correction: Correction
    at: datetime
    is_undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The current state of a review."""

    events: tuple[EventReview, ...]
    """Events with an opinion, by the order of their first action."""
    corrections: Mapping[str, tuple[Correction, ...]]
    """Corrections of people that are not undone, by video, oldest first."""
    proposals: Mapping[str, tuple[Correction, ...]] = field(default_factory=dict)
    """Corrections by programs that are not undone, by video; without effect until a person stores the same one."""
    correction_log: Mapping[str, tuple[LoggedCorrection, ...]] = field(default_factory=dict, compare=False)
    """All corrections of people by video, including undone ones, oldest first."""
    last_action: str = field(default="", compare=False)
    """Id of the last folded action; empty without actions."""
    only: str | None = None
    """The reviewer whose actions alone are included (blind mode); None for all reviewers."""
    unreadable: tuple[str, ...] = field(default=(), compare=False)
    """One line per row of the store that is skipped because it cannot be read."""


def fold_actions(actions: Iterable[Action], *, only: str | None = None) -> Review:
    """Return the state after a sequence of actions; with ``only``, after that reviewer's actions alone (blind mode)."""
    included = [action for action in actions if only is None or action.reviewer == only]
    effective = {action.action_id for action in list_effective(included)}
    events: dict[str, Event] = {}
    opinions: dict[str, dict[str, Opinion]] = defaultdict(dict)
    settled: dict[str, Action] = {}
    log: dict[str, list[LoggedCorrection]] = defaultdict(list)
    proposals: dict[str, tuple[Correction, ...]] = defaultdict(tuple)
    for action in included:
        is_undone = action.action_id not in effective
        if action.correction is not None and is_program(action.reviewer):
            proposals[action.video_id] += () if is_undone else (action.correction,)
        elif action.correction is not None:
            entry = LoggedCorrection(correction=action.correction, at=action.at, is_undone=is_undone)
            log[action.video_id].append(entry)
        elif is_undone:
            continue
        elif action.event is not None:
            for event, partner in _sides(action.event, action.paired):
                events.setdefault(event.key, event)
                if action.kind == "settle":
                    settled[event.key] = action
                    continue
                opinion = opinions[event.key].get(action.reviewer, Opinion(reviewer=action.reviewer))
                opinions[event.key][action.reviewer] = _apply(opinion, action, partner)
    return Review(
        events=tuple(
            EventReview(
                event=event,
                opinions=tuple(opinion for _, opinion in sorted(opinions[key].items())),
                final=settled[key].verdict if key in settled else None,
                settled_by=settled[key].reviewer if key in settled and settled[key].verdict else "",
            )
            for key, event in events.items()
        ),
        corrections={
            video_id: in_effect
            for video_id, entries in log.items()
            if (in_effect := tuple(entry.correction for entry in entries if not entry.is_undone))
        },
        proposals=proposals,
        correction_log={video_id: tuple(entries) for video_id, entries in log.items()},
        last_action=included[-1].action_id if included else "",
        only=only,
    )


def list_effective(actions: Sequence[Action]) -> list[Action]:
    """Return the actions that are not undone, without undo and redo, in their order."""
    done = {action.action_id for history in _histories(actions).values() for action in history.done}
    return [action for action in actions if action.kind == "assign" or action.action_id in done]


def find_movable(
    kind: Literal["undo", "redo"], actions: Iterable[Action], *, reviewer: str, video_id: str, target: str | None = None
) -> Action | None:
    """Return the action that an undo or redo would move, only ``target`` if it is given; None if there is none."""
    history = _histories(actions)[reviewer, video_id]
    return _last(history.done if kind == "undo" else history.undone, target)


def review_agreement(review: Review) -> tuple[Agreement, ...]:
    """Return the agreement of the people among the reviewers, over all verdicts and for each verdict."""
    return measure_agreement(_ratings(review), verdicts=VERDICTS)


def review_disagreements(review: Review) -> tuple[tuple[Event, Disagreement], ...]:
    """Return the events with differing verdicts of people and without a final verdict."""
    open_events = {found.event.key: found.event for found in review.events if found.final is None}
    differing = (found for found in list_disagreements(_ratings(review)) if found.item in open_events)
    return tuple((open_events[found.item], found) for found in differing)


BINS: Final = (0.0, 0.5, 0.7, 0.9, 1.0)
"""Ends of the bins of a confidence; each has its upper end, and the first both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The verdicts of a program with a confidence in one bin, on events that people judged alike."""

    low: float
    high: float
    num_equal: int
    """Those that people gave too."""
    num_verdicts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAgreement:
    """The agreement of an agent or a model with people."""

    reviewer: str
    agreement: Agreement
    """Over all verdicts; people are one reviewer, with the final verdict or the one that all of them gave."""
    calibration: tuple[Calibration, ...]
    """Of the bins with verdicts."""


def measure_programs(review: Review) -> tuple[ProgramAgreement, ...]:
    """Return the agreement of each program with people, by name."""
    ratings, said = defaultdict[str, list[Rating]](list), defaultdict[str, list[tuple[float, bool]]](list)
    for found in count_once(review):
        people = {one.verdict for one in found.opinions if one.verdict and not is_program(one.reviewer)}
        known = found.final or (next(iter(people)) if len(people) == 1 else None)
        for one in found.opinions:
            if not is_program(one.reviewer) or one.verdict is None:
                continue
            given = {one.reviewer: one.verdict, **({"people": known} if known else {})}
            key = found.event.key
            ratings[one.reviewer] += [Rating(item=key, reviewer=who, verdict=what) for who, what in given.items()]
            if known and one.confidence is not None:
                said[one.reviewer].append((one.confidence, one.verdict == known))
    return tuple(
        ProgramAgreement(
            reviewer=name,
            agreement=measure_agreement(ratings[name], verdicts=VERDICTS)[0],
            calibration=tuple(_calibrate(said[name])),
        )
        for name in sorted(ratings)
    )


def describe_calibration(found: ProgramAgreement) -> str:
    """Return how often people gave the same verdict, by the confidence of a program."""
    bins = (f"{one.low:g} to {one.high:g}: {one.num_equal} of {one.num_verdicts}" for one in found.calibration)
    return f"verdicts that people gave too, by confidence: {'; '.join(bins)}"


def _calibrate(said: Sequence[tuple[float, bool]]) -> Iterator[Calibration]:
    for low, high in pairwise(BINS):
        own = [is_equal for value, is_equal in said if low < value <= high or value == low == 0]
        if own:
            yield Calibration(low=low, high=high, num_equal=sum(own), num_verdicts=len(own))


@dataclass(slots=True, kw_only=True)
class _History:
    done: list[Action] = field(default_factory=list)
    undone: list[Action] = field(default_factory=list)


def _histories(actions: Iterable[Action]) -> defaultdict[tuple[str, str], _History]:
    """Return the stacks of done and undone actions, by reviewer and video."""
    histories: defaultdict[tuple[str, str], _History] = defaultdict(_History)
    for action in actions:
        history = histories[action.reviewer, action.video_id]
        if action.kind == "undo":
            _move(action.target, history.done, history.undone)
        elif action.kind == "redo":
            _move(action.target, history.undone, history.done)
        elif action.kind != "assign":  # the next assignment replaces it: Z of the same person must not
            history.done.append(action)
            history.undone.clear()
    return histories


def _last(actions: Sequence[Action], target: str | None) -> Action | None:
    return next((action for action in reversed(actions) if target in (None, action.action_id)), None)


def _move(target: str | None, source: list[Action], sink: list[Action]) -> None:
    """Move an action between stacks. Without effect if a second window of the reviewer has already moved it."""
    if (found := _last(source, target)) is not None:
        source.remove(found)
        sink.append(found)


def _sides(event: Event, paired: Event | None) -> tuple[tuple[Event, Event | None], ...]:
    """Return the events of an action, each with its partner in the pair, if any."""
    return ((event, None),) if paired is None else ((event, paired), (paired, event))


def _apply(opinion: Opinion, action: Action, partner: Event | None) -> Opinion:
    paired_with = {part: key for part, key in opinion.paired_with.items() if part != action.kind}
    if partner is not None:
        paired_with[action.kind] = partner.key
    given: dict[str, Any] = {action.kind: getattr(action, action.kind)}
    if action.kind == "verdict":
        given["confidence"] = action.confidence
    return replace(opinion, paired_with=paired_with, action=action, **given)


def count_once(review: Review) -> tuple[EventReview, ...]:
    """Return the events with each verdict listed once: a verdict on a pair only at the event of the model.

    Example: one verdict on the pair (response R, reference turn T) is listed at R and not at T.
    """
    by_event = {(found.event.key, opinion.reviewer): opinion for found in review.events for opinion in found.opinions}

    def is_listed(event: Event, opinion: Opinion) -> bool:
        """Return False for a verdict on the reference of a pair whose model event still has the same verdict."""
        partner = by_event.get((opinion.paired_with.get("verdict", ""), opinion.reviewer))
        return event.kind != "reference" or partner is None or partner.paired_with.get("verdict") != event.key

    return tuple(
        replace(found, opinions=tuple(opinion for opinion in found.opinions if is_listed(found.event, opinion)))
        for found in review.events
    )


def _ratings(review: Review) -> list[Rating]:
    """Return the verdicts as ratings of items: an event, or a pair if all reviewers of its reference judged the pair.

    The reference of a pair is an item of its own if some reviewers judged it alone or in a different pair.
    """
    counted = {found.event.key for found in count_once(review) if any(opinion.verdict for opinion in found.opinions)}
    return [
        Rating(item=found.event.key, reviewer=opinion.reviewer, verdict=opinion.verdict)
        for found in review.events
        if found.event.key in counted or len({opinion.paired_with.get("verdict") for opinion in found.opinions}) > 1
        for opinion in found.opinions
        if opinion.verdict is not None and not is_program(opinion.reviewer)
    ]

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.review_store import store as store_history
from stepscope.app.review_store.actions import MAX_REVIEWER_CHARS, Action, Event, check_reviewer
from stepscope.app.review_store.events import VideoEvents, name_events, reference_event
from stepscope.app.review_store.review import (
    Review,
    count_once,
    find_movable,
    fold_actions,
    review_agreement,
    review_disagreements,
)
from stepscope.app.review_store.store import ReviewStore, open_store, read_review
from stepscope.engine.records import FrameOutput
from stepscope.eval.annotations.corrections import VERDICTS, Correction, TurnName, Verdict, name_turns
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo
from tests.support.data.records import make_output
from tests.support.data.strategies import BOAT, few
from tests.support.reviews.reviewed import MOMENT, NAMES, opinion

HULL, SAIL, FLAG = (
    Event(video_id="boat", kind="generated", role="assistant", time_s=time_s, text=text)
    for time_s, text in ((1.0, "Hull."), (2.0, "Sail."), (3.0, "Flag."))
)
find_undo, find_redo = partial(find_movable, "undo"), partial(find_movable, "redo")
NAME = TurnName(role="assistant", time_s=1.0, text="Go.")


def act(by: str = "ann", video_id: str = "boat", **content: Any) -> Action:
    return Action(reviewer=by, video_id=video_id, **content)


def judge(event: Event, verdict: Verdict | None, *, by: str = "ann") -> Action:
    return act(by, event.video_id, kind="verdict", event=event, verdict=verdict)


def undo(action: Action) -> Action:
    return act(action.reviewer, action.video_id, kind="undo", target=action.action_id)


def redo(action: Action) -> Action:
    return act(action.reviewer, action.video_id, kind="redo", target=action.action_id)


def verdicts(review: Review) -> dict[str, dict[str, str | None]]:
    return {found.event.text: {said.reviewer: said.verdict for said in found.opinions} for found in review.events}


def test_two_reviewers_on_one_event_keep_both_and_of_one_the_last_counts() -> None:
    actions = [judge(HULL, "missed"), judge(HULL, "unclear", by="bob"), judge(HULL, "correct")]
    assert verdicts(fold_actions(actions)) == {"Hull.": {"ann": "correct", "bob": "unclear"}}


def test_blind_a_reviewer_sees_nothing_of_the_others() -> None:
    correction = Correction(reviewer="bob", kind="delete", turn=NAME)
    actions = [
        judge(HULL, "correct"),
        judge(SAIL, "missed", by="bob"),
        act("bob", kind="correction", correction=correction),
    ]
    review = fold_actions(actions, only="ann")
    assert (verdicts(review), dict(review.corrections)) == ({"Hull.": {"ann": "correct"}}, {})
    assert fold_actions(actions).corrections == {"boat": (correction,)}


def test_an_undo_that_two_windows_send_counts_once_and_never_reaches_another_reviewer() -> None:
    first, second = judge(HULL, "correct"), judge(SAIL, "missed")
    actions = [first, second, undo(second), undo(second)]
    assert verdicts(fold_actions(actions)) == {"Hull.": {"ann": "correct"}}
    foreign = act("bob", kind="undo", target=first.action_id)
    assert fold_actions([*actions, foreign]) == fold_actions(actions)


@given(st.lists(st.sampled_from(["act", "undo", "redo"]), max_size=25))
@few
def test_undo_and_redo_behave_as_in_an_editor(moves: list[str]) -> None:
    actions: list[Action] = []
    past: list[Action] = []
    future: list[Action] = []
    for number, move in enumerate(moves):
        if move == "act":
            action = judge((HULL, SAIL, FLAG)[number % 3], VERDICTS[number % 7])
            actions.append(action)
            past, future = [*past, action], []
        elif move == "undo" and (found := find_undo(actions, reviewer="ann", video_id="boat")):
            actions.append(undo(found))
            future.append(past.pop())
        elif move == "redo" and (found := find_redo(actions, reviewer="ann", video_id="boat")):
            actions.append(redo(found))
            past.append(future.pop())
        assert bool(past) == (find_undo(actions, reviewer="ann", video_id="boat") is not None)
        assert bool(future) == (find_redo(actions, reviewer="ann", video_id="boat") is not None)
    assert verdicts(fold_actions(actions)) == verdicts(fold_actions(past))


def test_agreement_and_disagreements_are_those_of_the_verdicts_that_count() -> None:
    wrong = judge(FLAG, "missed", by="bob")
    actions = [judge(event, "correct", by=by) for event in (HULL, SAIL, FLAG) for by in ("ann", "bob")]
    review = fold_actions([*actions, judge(SAIL, "unclear", by="bob"), wrong, undo(wrong)])
    overall, *kinds = review_agreement(review)
    assert overall.num_items == 3
    assert overall.raw == pytest.approx(2 / 3)
    assert [kind.verdict for kind in kinds] == list(VERDICTS)
    ((event, differing),) = review_disagreements(review)
    assert (event, differing.verdicts) == (SAIL, {"ann": "correct", "bob": "unclear"})


SAID = Event(video_id="boat", kind="generated", role="assistant", time_s=1.5, text="Go!")
LATER = Event(video_id="boat", kind="generated", role="assistant", time_s=2.0, text="Go!")
WANTED = reference_event("boat", NAME)


def judge_pair(event: Event, verdict: Verdict | None, *, by: str = "ann") -> Action:
    return act(by, "boat", kind="verdict", event=event, paired=WANTED, verdict=verdict)


def test_a_verdict_on_a_pair_counts_for_both_of_its_events_and_is_undone_at_once() -> None:
    given = judge_pair(SAID, "correct")
    review = fold_actions([given])
    assert [(opinion(review, event, "ann").verdict) for event in (SAID, WANTED)] == ["correct", "correct"]
    assert opinion(review, SAID, "ann").paired_with == {"verdict": WANTED.key}
    assert opinion(review, WANTED, "ann").paired_with == {"verdict": SAID.key}
    assert fold_actions([given, undo(given)]).events == ()


def test_a_pair_that_is_split_keeps_a_verdict_for_each_side() -> None:
    review = fold_actions([judge_pair(SAID, "correct"), judge(SAID, "wrong text")])
    assert (opinion(review, SAID, "ann").verdict, opinion(review, WANTED, "ann").verdict) == (
        "wrong text",
        "correct",
    )
    assert opinion(review, SAID, "ann").paired_with == {}
    review = fold_actions([judge_pair(SAID, "correct"), judge_pair(LATER, "early or late")])  # of another run
    assert opinion(review, WANTED, "ann").paired_with == {"verdict": LATER.key}
    assert [found.event.time_s for found in count_once(review) if found.opinions] == [1.5, 2.0]


@pytest.mark.parametrize(
    ("bob", "num_items", "raw"),
    [
        ([judge_pair(SAID, "correct", by="bob")], 1, 1.0),  # the pair is one item
        ([judge(SAID, "correct", by="bob"), judge(WANTED, "unclear", by="bob")], 2, 0.5),  # its sides are two
        ([judge_pair(LATER, "correct", by="bob")], 1, 1.0),  # of another run: the reference is what both judged
    ],
)
def test_agreement_counts_a_pair_once_where_nobody_split_it(bob: list[Action], num_items: int, raw: float) -> None:
    overall = review_agreement(fold_actions([judge_pair(SAID, "correct"), *bob]))[0]
    assert (overall.num_items, overall.raw) == (num_items, raw)


def test_a_disagreement_on_a_pair_is_listed_once() -> None:
    review = fold_actions([judge_pair(SAID, "correct"), judge_pair(SAID, "missed", by="bob")])
    assert [event for event, _ in review_disagreements(review)] == [SAID]


@pytest.mark.parametrize("name", ["", "\u202eevil", "x" * (MAX_REVIEWER_CHARS + 1)])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 80 printable characters"):
        check_reviewer(name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kind": "verdict", "verdict": "correct"}, "kind verdict needs its event"),
        (
            {"kind": "correction", "correction": Correction(reviewer="bob", kind="delete", turn=NAME)},
            "ann cannot correct on behalf of bob",
        ),
        ({"kind": "undo", "target": "x", "video_id": "a\0"}, "has characters that a database cannot store"),
    ],
)
def test_an_action_that_contradicts_itself_is_refused(content: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Action(**{"reviewer": "ann", "video_id": "boat", **content})


def frame(
    index: int, response: str | None = None, updates: tuple[str, ...] = (), *, late_s: float = 0.0
) -> FrameOutput:
    return make_output(index, fps=2 + late_s, speak_prob=0.9, response=response, updates=updates)


def test_events_are_named_in_the_order_of_the_page_and_found_again_after_a_re_run() -> None:
    outputs = [frame(0, "Go."), frame(1), frame(2, "Go on.", ("S1->start", "S1->start"))]
    failures = (
        Failure(kind="missed", frame_index=1, end_frame=2, reference=0),
        Failure(kind="wrong state", frame_index=1, end_frame=3, step_ids=("S1", "S2")),
    )
    judged = JudgedVideo(turns=(), failures=failures)
    sample = replace(BOAT, turns=(Turn(time_s=1.0, role="user", text="Next?"),) * 2)
    events = name_events("boat", outputs=outputs, references=name_turns(sample.turns), judged=judged)
    assert [(event.kind, event.time_s, event.text, event.number) for event in events.written] == [
        ("generated", 0.0, "Go.", 0),
        ("update", 1.0, "S1->start", 0),
        ("update", 1.0, "S1->start", 1),
        ("generated", 1.0, "Go on.", 0),
    ]
    assert [(event.kind, event.role, event.number) for event in events.references] == [
        ("reference", "user", 0),
        ("reference", "user", 1),
    ]
    assert [(event.kind, event.time_s, event.text) for event in events.states] == [("state", 0.5, "S1, S2")]
    kinds = ["generated", "state", "update", "update", "reference", "reference", "generated"]
    assert [event.kind for event in events.ordered] == kinds
    assert len({event.key for event in events.ordered}) == 7
    again = [frame(0), frame(1, "New."), frame(2, "Go on.", late_s=0.0001)]
    assert name_events("boat", outputs=again).written[-1].key == events.written[-1].key
    assert name_events("boat") == VideoEvents(written=(), references=(), states=())


EVENT = Event(video_id="boat", kind="update", role="update", time_s=1.0, text="S1->start")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReviewStore]:
    with open_store(tmp_path / "reviews.sqlite") as opened:
        yield opened


def test_what_a_reviewer_gives_is_there_and_undone_and_redone_one_by_one(store: ReviewStore) -> None:
    delete = Correction(reviewer="ann", kind="delete", turn=NAMES[0])
    given = [
        store.append(action)
        for action in (
            Action(kind="verdict", reviewer="ann", video_id="boat", event=EVENT, verdict="unclear", moment=MOMENT),
            Action(kind="tags", reviewer="ann", video_id="boat", event=EVENT, tags=("odd",), moment=MOMENT),
            Action(kind="note", reviewer="ann", video_id="boat", event=EVENT, note="dark", moment=MOMENT),
            Action(kind="correction", reviewer="ann", video_id="boat", correction=delete, moment=MOMENT),
        )
    ]
    assert [action.number for action in given] == [1, 2, 3, 4]
    assert all(action.moment == MOMENT for action in store.read())
    review = read_review(store, video_id="boat")
    said = opinion(review, EVENT, "ann")
    assert (said.verdict, said.tags, said.note) == ("unclear", ("odd",), "dark")
    assert review.corrections["boat"] == (delete,)
    assert store_history.undo(store, reviewer="bob", video_id="boat") is None
    assert [store_history.undo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given[::-1], None]
    assert (read_review(store).events, read_review(store).corrections) == ((), {})
    assert [store_history.redo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given, None]
    assert read_review(store) == review

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.assignments import (
    assign_videos,
    fold_assignments,
    measure_overlap,
    measure_workloads,
    next_in_queue,
    plan_assignments,
    read_assignments,
)
from stepscope.app.review_store.review import review_disagreements
from stepscope.app.review_store.store import ReviewStore, open_store, read_review, undo
from stepscope.eval.annotations.corrections import Verdict
from tests.support.data.strategies import few
from tests.support.reviews.desks import HOSTILE

VIDEOS = {f"v{number}": 1.0 for number in range(10)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReviewStore]:
    with open_store(tmp_path / "reviews.sqlite") as opened:
        yield opened


def finish(store: ReviewStore, reviewer: str, *video_ids: str, run: str = "a") -> None:
    for video_id in video_ids:
        store.append(Action(kind="done", reviewer=reviewer, video_id=video_id, run=run))


def judge(store: ReviewStore, reviewer: str, video_id: str, verdict: Verdict, time_s: float = 1.0) -> Event:
    event = Event(video_id=video_id, kind="generated", role="assistant", time_s=time_s, text="Go.")
    store.append(Action(kind="verdict", reviewer=reviewer, video_id=video_id, event=event, verdict=verdict))
    return event


def test_videos_are_shared_with_an_overlap_and_a_queue_goes_on_to_the_next(store: ReviewStore) -> None:
    found = assign_videos(store, VIDEOS, run="a", to=["ann", "ben"], overlap_percent=20, by="sue")
    assert sorted(len(each.reviewers) for each in found) == [1] * 8 + [2] * 2
    assert Counter(name for each in found for name in each.reviewers) == {"ann": 6, "ben": 6}
    assert read_assignments(store) == read_assignments(store, run="a") == found
    assert read_assignments(store, run="") == ()
    mine = [each.video_id for each in found if "ann" in each.reviewers]
    finish(store, "ann", mine[0], mine[2])
    queue = read_assignments(store, run="a")
    assert [
        each and each.video_id for each in (next_in_queue(queue, "ann"), next_in_queue(queue, "ann", after=mine[1]))
    ] == [
        mine[1],
        mine[3],
    ]
    finish(store, "ann", *mine)
    assert next_in_queue(read_assignments(store), "ann") is None
    undo(store, reviewer="ann", video_id=mine[4])
    assert next_in_queue(read_assignments(store), "ann", after=mine[5]).video_id == mine[4]  # type: ignore[union-attr]


def test_a_removed_reviewer_keeps_what_is_done_and_others_what_they_have_begun(store: ReviewStore) -> None:
    before = {
        each.video_id: each.reviewers for each in assign_videos(store, VIDEOS, run="a", to=["ann", HOSTILE], by="sue")
    }
    anns, bens = ([name for name, who in before.items() if who == (each,)] for each in ("ann", HOSTILE))
    finish(store, HOSTILE, bens[0])
    judge(store, HOSTILE, bens[1], "correct")
    judge(store, "ann", anns[0], "correct")
    after = {each.video_id: each for each in assign_videos(store, VIDEOS, run="a", to=["ann", "cat"], by="sue", seed=7)}
    assert after[bens[0]].reviewers == tuple(after[bens[0]].done) == (HOSTILE,)
    assert after[anns[0]].reviewers == ("ann",)
    assert {name for video_id in bens[1:] for name in after[video_id].reviewers} <= {"ann", "cat"}
    assert {
        each.reviewer: each.num_assigned for each in measure_workloads(list(after.values()), read_review(store))
    } == {
        HOSTILE: 1,
        "ann": 5,
        "cat": 4,
    }
    finish(store, HOSTILE, bens[1])  # offline until now
    assert {each.video_id: each.done for each in read_assignments(store)}[bens[1]] == {HOSTILE}
    judged = read_review(store, video_id=bens[1]).events
    assert [said.reviewer for found in judged for said in found.opinions] == [HOSTILE]


def test_the_overlap_is_measured_and_a_settled_event_is_no_longer_open(store: ReviewStore) -> None:
    assign_videos(store, {"x": 1.0, "y": 1.0}, run="a", to=["ann", "ben"], overlap_percent=50, by="sue")
    [both] = (each.video_id for each in read_assignments(store) if len(each.reviewers) == 2)
    [alone] = {"x", "y"} - {both}
    verdicts: list[tuple[Verdict, Verdict]] = [("correct", "correct"), ("missed", "missed"), ("correct", "missed")]
    for time_s, (one, other) in enumerate(verdicts):
        judge(store, "ann", both, one, float(time_s))
        differing = judge(store, "ben", both, other, float(time_s))
    judge(store, "ann", alone, "correct")
    judge(store, "zoe", both, "unclear")  # was not asked
    queue, review = read_assignments(store), read_review(store)
    # 2 of 3 equal; by chance (2 * 1 + 1 * 2) / 9 = 4/9: kappa (6 - 4) / (9 - 4) = 0.4
    overlap = measure_overlap(queue, review)
    assert (overlap.num_items, round(overlap.raw, 3), round(overlap.kappa, 3)) == (3, 0.667, 0.4)
    assert {
        each.reviewer: (each.num_verdicts, each.agreement.num_items) for each in measure_workloads(queue, review)
    } == {
        "ann": (3 + ("ann" in next(each.reviewers for each in queue if each.video_id == alone)), 3),
        "ben": (3, 3),
    }
    assert differing.key in [event.key for event, _ in review_disagreements(review)]
    settle = Action(kind="settle", reviewer="sue", video_id=both, event=differing, verdict="missed")
    store.append(settle)
    review = read_review(store)
    assert differing.key not in [event.key for event, _ in review_disagreements(review)]
    assert [(found.final, found.settled_by) for found in review.events if found.final] == [("missed", "sue")]
    undo(store, reviewer="sue", video_id=both)
    assert all(found.final is None for found in read_review(store).events)


@given(
    lengths=st.dictionaries(st.text(max_size=4), st.floats(0, 100), min_size=1, max_size=30),
    num_reviewers=st.integers(2, 5),
    overlap=st.integers(0, 100),
    seed=st.integers(0, 3),
)
@few
def test_plans_are_balanced_and_the_same_for_one_seed(
    lengths: dict[str, float], num_reviewers: int, overlap: int, seed: int
) -> None:
    names = [f"r{number}" for number in range(num_reviewers)]
    plan = plan_assignments(lengths, names, overlap_percent=overlap, seed=seed, kept={})
    assert plan == plan_assignments(dict(reversed(lengths.items())), names, overlap_percent=overlap, seed=seed, kept={})
    assert all(len(who) == len(set(who)) in (1, 2) for who in plan.values())
    assert sum(len(who) == 2 for who in plan.values()) == -(-len(lengths) * overlap // 100)
    loads = [sum(lengths[video_id] for video_id, who in plan.items() if name in who) for name in names]
    assert max(loads) - min(loads) <= max(lengths.values()) + 1e-6


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"to": [], "overlap_percent": 5}, "name 1 to "),
        ({"to": ["ann", "ben"], "overlap_percent": 101}, "from 0 to 100; got 101"),
        ({"to": ["ann"], "by": " "}, "a reviewer's name is 1 to 80 printable characters"),
    ],
)
def test_wrong_assignments_store_nothing(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    arguments: dict[str, object] = {"lengths": VIDEOS, "run": "a", "by": "sue", **changes}
    with open_store(tmp_path / "reviews.sqlite") as opened:
        with pytest.raises(ValueError, match=reason):
            assign_videos(opened, **arguments)  # type: ignore[arg-type]
        assert fold_assignments(opened.read()) == ()

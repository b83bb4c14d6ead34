from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.history import read_review, redo, undo
from stepscope.app.reviews.store import ReviewStore, open_store
from stepscope.eval.annotations.corrections import Correction
from tests.support.reviews.reviewed import MOMENT, NAMES, opinion

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
    assert [undo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given[::-1], None]
    assert (read_review(store).events, read_review(store).corrections) == ((), {})
    assert [redo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given, None]
    assert read_review(store) == review


def test_an_undo_that_is_asked_for_twice_takes_back_one(store: ReviewStore) -> None:
    for verdict in ("correct", "missed"):
        store.append(Action(kind="verdict", reviewer="ann", video_id="boat", event=EVENT, verdict=verdict))
    taken = [undo(store, reviewer="ann", video_id="boat", action_id="again") for _ in range(2)]
    assert [action.verdict for action in taken if action] == ["missed", "missed"]
    assert opinion(read_review(store), EVENT, "ann").verdict == "correct"


def test_a_blind_reviewer_sees_and_undoes_nothing_of_the_others(store: ReviewStore) -> None:
    store.append(Action(kind="verdict", reviewer="ann", video_id="boat", event=EVENT, verdict="correct"))
    assert read_review(store, only="bob").events == ()
    assert undo(store, reviewer="bob", video_id="boat") is None
    assert opinion(read_review(store), EVENT, "ann").verdict == "correct"

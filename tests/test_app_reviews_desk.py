from collections.abc import Iterator
from pathlib import Path

import pytest

from app.reviews.actions import Event
from app.reviews.desk import give_correction, give_note, give_tags, give_verdict, read_review, redo, undo
from app.reviews.store import ReviewStore, open_store
from eval.corrections import Correction
from tests.reviewed import MOMENT, NAMES

EVENT = Event(video_id="boat", kind="update", role="update", time_s=1.0, text="S1->start")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReviewStore]:
    with open_store(tmp_path / "reviews.sqlite") as opened:
        yield opened


def test_what_a_reviewer_gives_is_there_and_undone_and_redone_one_by_one(store: ReviewStore) -> None:
    given = [
        give_verdict(store, EVENT, "unclear", reviewer="ann", moment=MOMENT),
        give_tags(store, EVENT, ("odd",), reviewer="ann", moment=MOMENT),
        give_note(store, EVENT, "dark", reviewer="ann", moment=MOMENT),
        give_correction(
            store,
            Correction(reviewer="ann", kind="delete", turn=NAMES[0]),
            video_id="boat",
            moment=MOMENT,
        ),
    ]
    assert [action.number for action in given] == [1, 2, 3, 4]
    assert all(action.moment == MOMENT for action in store.read())
    review = read_review(store, video_id="boat")
    said = review.opinion(EVENT, "ann")
    assert (said.verdict, said.tags, said.note) == ("unclear", ("odd",), "dark")
    assert review.corrections["boat"] == (given[3].correction,)
    assert [undo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given[::-1], None]
    assert (read_review(store).events, read_review(store).corrections) == ((), {})
    assert [redo(store, reviewer="ann", video_id="boat") for _ in range(5)] == [*given, None]
    assert read_review(store) == review


def test_a_blind_reviewer_sees_and_undoes_nothing_of_the_others(store: ReviewStore) -> None:
    give_verdict(store, EVENT, "correct", reviewer="ann", moment=MOMENT)
    assert read_review(store, only="bob").events == ()
    assert undo(store, reviewer="bob", video_id="boat") is None
    assert read_review(store).opinion(EVENT, "ann").verdict == "correct"

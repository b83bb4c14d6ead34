import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.app.review_store.actions import Action, Event, PageState
from stepscope.app.review_store.database import StoreError
from stepscope.app.review_store.store import open_store
from stepscope.eval.annotations.corrections import Correction, TurnName
from tests.support.data.strategies import HOSTILE, TEXTS
from tests.support.reviews.databases import new_database

EVENT = Event(video_id="boat", kind="generated", role="assistant", time_s=1.5, text="Set down the hull.")
MOMENT = PageState(run_digest="r1", model_digest="m1", speak_threshold=0.5, update_threshold=0.25, playhead_s=1.625)


def judge(reviewer: str = "ann", event: Event = EVENT, note: str = "") -> Action:
    return Action(
        kind="note" if note else "verdict",
        reviewer=reviewer,
        video_id=event.video_id,
        event=event,
        verdict=None if note else "correct",
        note=note,
        moment=MOMENT,
    )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "reviews" / "reviews.sqlite")
        return
    with new_database(request.getfixturevalue("postgres")) as url:
        yield url


def test_an_action_comes_back_as_it_was_with_its_number(where: str) -> None:
    name = TurnName(role="update", time_s=2.0, text="S1->start", number=1)
    correction = Correction(reviewer="bob", kind="time", turn=name, time_s=1 / 3)
    actions = [
        judge(),
        Action(kind="correction", reviewer="bob", video_id="car", correction=correction, moment=MOMENT),
        Action(kind="tags", reviewer="bob", video_id="boat", event=EVENT, tags=("odd", "=1")),
        Action(kind="undo", reviewer="bob", video_id="boat", target="abc", at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    ]
    with open_store(where) as store:
        assert [store.append(action).number for action in actions] == [1, 2, 3, 4]
    with open_store(where) as store:
        assert store.read() == tuple(actions)
        assert [action.number for action in store.read()] == [1, 2, 3, 4]
        assert store.read(video_id="car") == (actions[1],)
        assert store.read(video_id="boat", after=1) == tuple(actions[2:])


def test_another_action_of_a_used_name_is_refused(where: str) -> None:
    with open_store(where) as store:
        action = store.append(judge())
        assert store.append(replace(action, at=datetime(2031, 1, 1, tzinfo=UTC))) == action
        for other in (replace(action, note="other"), replace(action, moment=PageState())):
            with pytest.raises(ValueError, match=f"another action has the action_id '{action.action_id}'"):
                store.append(other)
        assert store.read() == (action,)


def test_hostile_texts_are_kept_as_they_were_typed(where: str) -> None:
    with open_store(where) as store:

        @given(st.one_of(TEXTS, st.text(min_size=1)))
        @settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
        def keeps(note: str) -> None:
            action = store.append(judge(note=note))
            assert store.read(after=(action.number or 0) - 1) == (action,)

        keeps()
        for text in (*HOSTILE, "\ud83d"):
            event = Event(video_id="=cmd()", kind="state", role="update", time_s=0.0, text=text)
            action = store.append(judge("<script>", event))
            assert store.read(video_id="=cmd()")[-1] == action


WRITERS = """
import os, sys
from stepscope.app.review_store.store import open_store
from tests.app.review_store.test_store import judge
for reviewer in sys.argv[2:]:
    if not os.fork():
        with open_store(sys.argv[1]) as store:
            while True:
                done = store.append(judge(reviewer)).action_id
                os.write(1, f"{reviewer} {os.getpid()} {done}\\n".encode())
sys.exit(any(os.waitstatus_to_exitcode(os.wait()[1]) != -9 for _ in sys.argv[2:]))
"""


@pytest.mark.slow
def test_processes_that_write_at_once_and_are_killed_lose_nothing_that_they_said_was_kept(where: str) -> None:
    """Three reviewers write at once, each until it is killed: every action that was told is there once, in order."""
    open_store(where).close()
    told: dict[str, list[str]] = {f"r{number}": [] for number in range(3)}
    command = [sys.executable, "-c", WRITERS, where, *told]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            reviewer, pid, action_id = line.split()
            told[reviewer].append(action_id)
            if len(told[reviewer]) == 20:
                os.kill(int(pid), signal.SIGKILL)
    assert process.returncode == 0, "none ends by itself"
    with open_store(where) as store:
        kept = store.read()
    for reviewer, ids in told.items():
        assert len(ids) >= 20
        found = [action.action_id for action in kept if action.reviewer == reviewer]
        assert found[: len(ids)] == ids
        assert len(found) <= len(ids) + 1


def test_the_file_syncs_every_commit_to_a_write_ahead_log(tmp_path: Path) -> None:
    with open_store(tmp_path / "reviews.sqlite") as store, store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def set_schema(where: str, *statements: str) -> None:
    with open_store(where) as store, store.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_store_of_a_newer_schema_is_refused_and_left_as_it_is(where: str) -> None:
    set_schema(where, "UPDATE review_schema SET version_num = '9999'")
    for _ in range(2):
        with pytest.raises(
            StoreError, match=r"has the schema 9999; this version of StepScope supports schemas up to 0001: update Step"
        ):
            open_store(where)


def test_what_is_no_store_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look at" * 30)
    with pytest.raises(StoreError, match=r"text cannot be used: file is not a database"):
        open_store(tmp_path / "text")
    with pytest.raises(StoreError, match="cannot be used: "):
        open_store("nodatabase://host/x")


def test_a_password_is_not_told(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError) as caught:
        open_store(f"postgresql://ann:secret@/reviews?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "ann:***@" in str(caught.value)


def test_an_action_that_cannot_be_kept_raises(tmp_path: Path) -> None:
    with open_store(tmp_path / "reviews.sqlite") as store:
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE review_actions")
        with pytest.raises(StoreError, match="no such table"):
            store.append(judge())


@pytest.mark.parametrize("change", ["replaced", "deleted", "log deleted"])
def test_what_would_be_in_no_file_is_refused_and_not_called_kept(tmp_path: Path, change: str) -> None:
    where, copy = tmp_path / "reviews.sqlite", tmp_path / "copy.sqlite"
    with open_store(copy):
        pass
    with open_store(where) as store:
        store.append(Action(kind="done", reviewer="ann", video_id="boat", run=""))
        if change == "replaced":
            copy.replace(where)
        else:
            where.with_name(where.name + ("-wal" if "log" in change else "")).unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match=r"^the store reviews.sqlite cannot be used: its file, or the -wal"):
                store.append(Action(kind="done", reviewer="ann", video_id="boat", run="late"))
    assert where.exists() == (change != "deleted"), "no empty store takes its place"


def test_a_store_that_is_replaced_during_a_write_does_not_confirm_it(tmp_path: Path) -> None:
    where, copy = tmp_path / "reviews.sqlite", tmp_path / "copy.sqlite"
    with open_store(copy):
        pass
    with open_store(where) as store:
        sa.event.listen(store.engine, "commit", lambda _: copy.replace(where))
        with pytest.raises(StoreError, match="replaced or deleted while it was open"):
            store.append(Action(kind="done", reviewer="ann", video_id="boat", run=""))


def test_actions_that_are_set_aside_are_applied_by_nothing_and_can_be_restored(where: str) -> None:
    with open_store(where) as store:
        kept = [
            store.append(Action(kind="done", reviewer=who, video_id=video, run=""))
            for who, video in (("ann", "boat"), ("bob", "boat"), ("bob", "house"))
        ]
        assert store.read_video("boat").actions == tuple(kept[:2])
        assert store.count_matching(is_aside=False, reviewer="bob") == [("bob", "boat", 1), ("bob", "house", 1)]
        store.set_aside(reviewer="bob", video_id="boat")
        assert store.read() == (kept[0], kept[2])
        assert store.read_video("boat").actions == (kept[0],)
        assert store.append(kept[1]) == kept[1], "its id stays its own"
        assert store.count_matching(is_aside=True) == [("bob", "boat", 1)]
        store.restore(reviewer="bob")
        assert store.read() == tuple(kept)
        assert store.read_video("boat").actions == tuple(kept[:2])
        store.set_aside(since=kept[2].at.isoformat())
        assert store.read() == tuple(kept[:2])

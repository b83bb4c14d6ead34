"""The way from a table of the reviews tab into the player."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app import opening
from stepscope.app.__main__ import main as serve
from stepscope.app.context import AppContext, ReviewContext
from stepscope.app.controls.widgets import list_components
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.reviews.actions import Action, Event, Moment
from stepscope.app.security.identity import read_users
from stepscope.app.tabs.reviews import handlers
from stepscope.app.web.views import PlayerView
from stepscope.eval.annotations.corrections import Verdict
from tests.support.pages.benches import views
from tests.support.pages.browser import free_port
from tests.support.reviews.desks import HOSTILE, clicked, make_query


def test_what_is_to_be_settled_opens_in_the_player_at_its_time(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    view = handlers.show(batches, reviews, make_query())

    def open_event(number: int, **chosen: Any) -> tuple[PlayerView, dict[str, Any]]:
        query = make_query(**chosen)
        page, at = handlers.open_event(context, batches, reviews, None, query, view.unsettled, number)
        assert at == number
        return page, json.loads(page.run.player)

    page, shown = open_event(2)
    clip_view, _, buttons = views(page)
    assert (shown["name"], shown["open_at"], shown["turns"], len(shown["references"])) == ("v0", 2.0, [], 5)
    assert shown["hit"] == {"of": "settle", "number": 3, "total": 3}
    assert shown["opens_review"]
    assert len(shown["events"]) == 5
    shown_bytes = Path(clip_view.video).read_bytes()
    assert (clip_view.chosen, buttons.live) == ("v0", None)
    assert shown_bytes == context.bundled_videos.find("v0").path.read_bytes()
    assert page.tabs.selected == "player"
    for number, row in enumerate(view.to_settle):  # two of them at one time
        assert handlers.find_row(view.unsettled, clicked(*row)) == number
        shown = open_event(number)[1]
        events = {event["key"]: event["text"] for event in shown["events"]}
        assert events.get(shown["open_event"], "Something older.") == row[4]
        page, again = open_event(number, run="a")
        assert ("Press N" in page.run.status.value) == (number < 2)  # not at the last one
        assert again["open_event"] == shown["open_event"]
        assert (again["run_name"], again["open_at"]) == ("a", row[1])
    page = handlers.open_video(context, batches, reviews, None, make_query(run="a"), clicked("v2", 5))
    assert json.loads(page.run.player)["run_name"]
    page = handlers.open_video(context, batches, reviews, None, make_query(), clicked(HOSTILE))
    assert json.loads(page.run.player)["name"] == HOSTILE
    for number in (-1, 3):
        with pytest.warns(UserWarning, match="nothing further to settle"):  # what the page shows as a notice
            opened = handlers.open_event(context, batches, reviews, None, make_query(), view.unsettled, number)
        assert all(value == gr.skip() for value in list_components(opened))


def test_without_a_chosen_run_the_one_that_was_judged_is_opened(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    digest = opening.read_saved(context, batches, "a", "v0").digest
    event = Event(video_id="v0", kind="generated", role="assistant", time_s=1.0, text="Let's go.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "redundant")]
    for who, verdict in told:
        moment = Moment(run_digest=digest)
        reviews.store.append(
            Action(kind="verdict", reviewer=who, video_id="v0", event=event, verdict=verdict, moment=moment)
        )
    unsettled = handlers.show(batches, reviews, make_query()).unsettled
    (number,) = [number for number, each in enumerate(unsettled) if each.event == event]
    page, _ = handlers.open_event(context, batches, reviews, None, make_query(), unsettled, number)
    assert (json.loads(page.run.player)["run_name"], json.loads(page.run.player)["open_at"]) == ("a", 1.0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_users_are_lines_of_name_and_password(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "users"
    path.write_text("ann:a:b c \r\n\n\ufeffZoé: x\u200b\n\u2060\n", encoding=encoding)
    assert read_users(path) == [("ann", "a:b c "), ("Zoé", " x")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ann:secret\nsecret\n", "line 2 is not of the form name:password"),
        (b":secret\n", "line 1 is not"),
        (b"ann:\n", "line 1 is not"),
        (b"ann :secret\n", "line 1 is not"),
        (b"ann:secret\nann:secret2\n", "line 2 repeats a name"),
        ("ann:\u200bsecret\n".encode(), "line 1 has the invisible character U+200B"),
        ("ann:secret\nbob\ufeff:secret".encode(), "line 2 has the invisible character U+FEFF"),
        (b"\n", "has no users"),
        (b"ann:secret\xff\n", "not UTF-8 text"),
    ],
)
def test_a_wrong_file_of_users_ends_with_2_and_one_line_without_passwords(
    content: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users").write_bytes(content)
    assert serve(["--port", str(free_port()), "--auth", str(tmp_path / "users")]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert "secret" not in error


def test_a_store_that_cannot_be_opened_ends_with_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noise.sqlite").write_bytes(b"noise " * 1000)
    nowhere = tmp_path / "nope"
    stores = (str(nowhere / "dir" / "r.sqlite"), f"sqlite:///{nowhere}/r.sqlite")
    for store in (*stores, str(tmp_path / "noise.sqlite"), "sqlite+none://", str(tmp_path)):
        assert serve(["--port", str(free_port()), "--reviews", store, "--data", str(tmp_path / "none.json")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: the folder" if store in stores else "error: ")
        assert error.count("\n") == 1
        assert not nowhere.exists()

"""The way from a table of the reviews tab into the player."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.__main__ import main as serve
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.views import PlayerView
from stepscope.app.reviews import handlers
from stepscope.app.server.identity import read_users
from stepscope.app.window.context import AppContext, ReviewContext
from tests.support.pages.browser import free_port
from tests.support.reviews.desks import HOSTILE, clicked, make_query


def test_what_is_to_be_settled_opens_in_the_player_at_its_time(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    view = handlers.show(batches, reviews, make_query())

    def open_event(number: int, **chosen: Any) -> tuple[PlayerView, dict[str, Any]]:
        query = make_query(**chosen)
        page = handlers.open_event(context, batches, reviews, query, view.unsettled, number)
        assert (page.at, page.listed) == (number, view.unsettled)
        return page, json.loads(page.player)

    page, shown = open_event(2)
    assert (shown["name"], shown["landing"]["time"], shown["turns"], len(shown["references"])) == ("v0", 2.0, [], 5)
    assert shown["landing"]["place"] == {"of": "settle", "number": 3, "total": 3, "query": ""}
    assert shown["landing"]["opens_review"]
    assert (page.clip and page.clip.name, page.live) == ("v0", None)
    assert page.tabs.selected == "player"
    for number, row in enumerate(view.to_settle):  # two of them at one time
        assert handlers.find_row(view.unsettled, clicked(*row)) == number
        shown = open_event(number)[1]
        events = {event["key"]: event["text"] for event in shown["events"]}
        assert events.get(shown["landing"]["event"], "Something older.") == row[4]
        page, again = open_event(number, run="a")
        assert again["landing"]["event"] == shown["landing"]["event"]
        assert (again["run_name"], again["landing"]["time"]) == ("a", row[1])
    for run, video in ((None, HOSTILE), ("a", "v0")):  # a row of the tab is opened to be reviewed
        page = handlers.open_video(context, batches, reviews, make_query(run=run), clicked(video))
        shown = json.loads(page.player)
        assert (shown["name"], shown["landing"]["opens_review"]) == (video, True)


def test_users_are_lines_of_name_and_password(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("ann:a:b c \r\n\n\ufeffZoé: x\u200b\n\u2060\n", encoding="utf-8-sig")
    assert read_users(path) == [("ann", "a:b c "), ("Zoé", " x")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ann:secret\nsecret\n", "line 2 is not of the form name:password"),
        (b"ann:secret\nann:secret2\n", "line 2 repeats a name"),
        ("ann:\u200bsecret\n".encode(), "line 1 has the invisible character U+200B"),
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

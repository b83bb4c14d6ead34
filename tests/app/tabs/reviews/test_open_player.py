"""The way from a table of the reviews tab into the player."""

import json
from pathlib import Path

import gradio as gr
import pytest

from stepscope.app.context import AppContext, ReviewContext
from stepscope.app.controls.widgets import list_components
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.opening import saved_runs as saved
from stepscope.app.reviews.actions import Action, Event, Moment
from stepscope.app.tabs.reviews import handlers
from stepscope.eval.annotations.corrections import Verdict
from tests.support.pages.benches import views
from tests.support.reviews.desks import HOSTILE, clicked, make_query


def test_what_is_to_be_settled_opens_in_the_player_at_its_time(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("v0", 2.0))
    clip_view, run_view, buttons = views(page)
    shown = json.loads(run_view.player)
    assert (shown["name"], shown["open_at"], shown["turns"], len(shown["references"])) == ("v0", 2.0, [], 5)
    assert shown["open_event"] is None  # of a row that is settled by now
    assert len(shown["events"]) == 5
    shown_bytes = Path(clip_view.video).read_bytes()
    assert (clip_view.chosen, buttons.live) == ("v0", None)
    assert shown_bytes == context.bundled_videos.find("v0").path.read_bytes()
    assert page.tabs.selected == "player"
    for row in handlers.show(batches, reviews, make_query()).to_settle:  # two of them at one time
        page = handlers.open_event(context, batches, reviews, None, make_query(), clicked(*row))
        shown = json.loads(page.run.player)
        events = {event["key"]: event["text"] for event in shown["events"]}
        assert shown["open_event"] is not None
        assert events.get(shown["open_event"], "Something older.") == row[4]
        page = handlers.open_event(context, batches, reviews, None, make_query(run="a"), clicked(*row))
        assert json.loads(page.run.player)["open_event"] == shown["open_event"]
    page = handlers.open_event(context, batches, reviews, None, make_query(run="a"), clicked("v0", 2.0))
    shown = json.loads(page.run.player)
    assert (shown["run_name"], shown["open_at"]) == ("a", 2.0)
    page = handlers.open_video(context, batches, reviews, None, make_query(run="a"), clicked("v2", 5))
    assert json.loads(page.run.player)["run_name"]
    page = handlers.open_video(context, batches, reviews, None, make_query(), clicked(HOSTILE))
    assert json.loads(page.run.player)["name"] == HOSTILE
    with pytest.warns(UserWarning, match="has no video"):  # what the page shows as a notice
        page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("nothing", 0.0))
    assert all(value == gr.skip() for value in list_components(page))


def test_without_a_chosen_run_the_one_that_was_judged_is_opened(
    context: AppContext, batches: BatchContext, reviews: ReviewContext
) -> None:
    digest = saved.read_saved(context, batches, "a", "v0").digest
    event = Event(video_id="v0", kind="generated", role="assistant", time_s=1.0, text="Let's go.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "false alarm")]
    for who, verdict in told:
        moment = Moment(run_digest=digest)
        reviews.store.append(
            Action(kind="verdict", reviewer=who, video_id="v0", event=event, verdict=verdict, moment=moment)
        )
    page = handlers.open_event(context, batches, reviews, None, make_query(), clicked("v0", 1.0))
    assert (json.loads(page.run.player)["run_name"], json.loads(page.run.player)["open_at"]) == ("a", 1.0)

"""The queues: only events that have work enter that of the model, since each one counts as waiting."""

import re
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch.runs.handlers import ShownRun
from stepscope.app.chat.window import Question
from stepscope.app.controls.widgets import MODEL_QUEUE
from stepscope.app.player import handlers, opening, reruns
from stepscope.app.player.commands import COMMANDS, ThresholdRequest
from stepscope.app.player.questions import ask_in_run
from stepscope.app.review_store.store import open_store
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from tests.support.pages.benches import make_page, run_through
from tests.support.paths import ROOT

BOXES: dict[str, Any] = {"goal": "build", "steps": "S1: attach the wheel", "user_turns": ""}


@pytest.fixture(scope="module")
def page(context: AppContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[gr.Blocks]:
    folder = tmp_path_factory.mktemp("page")
    with open_store(folder / "reviews.sqlite") as store:
        yield make_page(context, runs=folder, store=store)


@pytest.fixture
def finished(context: AppContext) -> LiveRun:
    return run_through(context, context.bundled_videos.clips[0])


def test_no_event_of_the_queue_follows_another_event_without_a_ticket(page: gr.Blocks) -> None:
    events = [function for function in page.fns.values() if function.concurrency_id == MODEL_QUEUE["concurrency_id"]]
    of_tickets = [one for one in events if any(event == "change" for _, event in one.targets)]
    assert len(of_tickets) == 3, "a run, a run at other thresholds, a live session"
    begun = {one._id for one in page.fns.values() if one.name == "begin"}  # by a button, which is off meanwhile
    assert {one.trigger_after for one in events if one.trigger_after is not None} <= begun
    for ticket, number in zip((one.targets[0][0] for one in of_tickets), (5, 2, 1), strict=True):
        changing = [one.name for one in page.fns.values() if ticket in [output._id for output in one.outputs]]
        assert len(changing) <= number, f"only what has work for the model: {changing}"


def test_no_event_writes_the_one_window_as_a_whole(page: gr.Blocks) -> None:
    states = [block for block in page.blocks.values() if isinstance(block, gr.State)]
    (window,) = (state for state in states if isinstance(state.value, Window))
    assert sum(window in function.inputs for function in page.fns.values()) > 20
    assert not any(window in function.outputs for function in page.fns.values())


def has_ticket(update: Any) -> bool:
    """Return whether a handler changes the state whose event enters the queue."""
    return isinstance(update, int)


@pytest.mark.parametrize(("shown", "number"), [("desk_status", 4), ("assign_said", 3)])
def test_views_of_reviews_come_in_the_order_of_their_events(page: gr.Blocks, shown: str, number: int) -> None:
    events = [function for function in page.fns.values() if any(output.elem_id == shown for output in function.outputs)]
    assert {(function.concurrency_id, function.concurrency_limit) for function in events} == {("reviews", 1)}
    assert len(events) == number, "an opened tab, a changed input, an import or an assignment, and the run in focus"


@pytest.mark.parametrize(
    ("link", "has_work"),
    [
        ({}, False),
        ({"video": "truck-2"}, False),
        ({"video": "nothing", "run": "0123456789ab"}, False),
        ({"video": "truck-2", "run": "0123456789ab"}, True),
    ],
)
def test_a_page_enters_it_only_to_stream_the_run_of_its_link(
    context: AppContext, link: dict[str, str], has_work: bool
) -> None:
    view = opening.open_page(context, link)
    assert has_ticket(view.stream) == has_work
    assert (view.live is not None) == has_work


@pytest.mark.parametrize(("speak", "has_work"), [(0.5, False), (2, False), (0.2, True)])
def test_only_other_thresholds_enter_it(context: AppContext, finished: LiveRun, speak: float, has_work: bool) -> None:
    asked = ThresholdRequest(speak=speak, update=0.5, ticket=1, has_run=True)
    view = reruns.request_thresholds(context, Window(live=finished), asked)
    assert has_ticket(view.rerun) == has_work
    assert has_ticket(handlers.show_stopped(context, Window(live=finished)).rerun) == has_work


def test_refused_work_does_not_enter_it(context: AppContext) -> None:
    refused = [
        handlers.queue_run(context, Window(), "", "", "", 0.5, 0.5),
        ask_in_run(context, Window(), Question(text="What is next?")),
    ]
    assert [has_ticket(ticket) for view in refused for ticket in (view.stream, view.rerun)] == [False] * 4


def test_each_command_of_the_player_is_answered(page: gr.Blocks) -> None:
    (player,) = (block for block in page.blocks.values() if block.elem_id == "player")
    answered = {event for one in page.fns.values() for block, event in one.targets if block == player._id}
    assert answered == set(COMMANDS)
    script = (ROOT / "app" / "publish" / "static" / "view.js").read_text(encoding="utf-8")
    published = re.findall(r"^    (\w+): ", script.partition("const events = {")[2].partition("};")[0], re.MULTILINE)
    assert "step_videos" in published
    assert set(published) <= answered, "the published player answers the same commands"


def test_what_a_window_shows_is_the_last_output_of_a_poll(page: gr.Blocks) -> None:
    polls = [function for function in page.fns.values() if any(event == "tick" for _, event in function.targets)]
    poll = max(polls, key=lambda function: len(function.outputs))
    shown = [isinstance(output, gr.State) and isinstance(output.value, ShownRun) for output in poll.outputs]
    assert shown == [False] * (len(shown) - 1) + [True], "else an older reply could come after it"

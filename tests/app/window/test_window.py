"""The state of a window: events that run at once, windows that share nothing, and the end of a run that is replaced."""

import asyncio
from collections.abc import Generator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from stepscope.app.controls.widgets import Updates, wire
from stepscope.app.window.live_run import LiveRun, Window

CLIP: Any = SimpleNamespace(name="kettle")


@pytest.fixture
def page() -> gr.Blocks:
    def stream(window: Window) -> Generator[Updates]:
        yield Updates(status="Running.", live=LiveRun())
        yield Updates(status=f"Done with {window.clip and window.clip.name}.")

    def open_clip() -> Updates:
        return Updates(clip=CLIP)

    with gr.Blocks() as page:
        button, view = gr.Button(), {"window": gr.State(Window()), "status": gr.Textbox()}
        wire(button.click, stream, view["window"], view)
        wire(button.click, open_clip, None, view)
    return page


def find_window(page: gr.Blocks, session: SessionState) -> Window:
    (state,) = (number for number, block in page.blocks.items() if isinstance(block, gr.State))
    window: Window = session[state]
    return window


def call(page: gr.Blocks, number: int, session: SessionState, **options: Any) -> dict[str, Any]:
    inputs = [None] * len(page.fns[number].inputs)
    return asyncio.run(page.process_api(number, inputs, state=session, **options))


def test_what_an_event_changes_while_another_one_runs_stays(page: gr.Blocks) -> None:
    session = SessionState(page)
    running = call(page, 0, session)
    call(page, 1, session)
    window = find_window(page, session)
    live = window.live
    assert (window.clip, live is not None) == (CLIP, True)
    ended = call(page, 0, session, iterator=running["iterator"])
    assert ended["data"] == ["Done with kettle."], "the event sees what the other one has changed"
    assert (window.clip, window.live) == (CLIP, live)
    assert find_window(page, session) is window


def test_windows_share_nothing(page: gr.Blocks) -> None:
    first, second = SessionState(page), SessionState(page)
    call(page, 1, first)
    assert find_window(page, first).clip is CLIP
    assert find_window(page, second) == Window()
    assert find_window(page, SessionState(page)) == Window(), "not even what they begin with"


@pytest.mark.parametrize("following", [None, LiveRun.finished(CLIP)])
def test_a_run_has_ended_before_what_replaces_it_is_shown(following: LiveRun | None) -> None:
    before = LiveRun(is_started=True)
    window = Window(live=before)
    taking = Thread(target=window.take, args=({"live": following},))
    taking.start()
    taking.join(0.05)
    assert taking.is_alive()
    before.ended.set()
    taking.join(10)
    assert (before.is_cancelled, window.live) == (True, following)


def test_a_queued_run_replaces_one_without_waiting_for_its_end() -> None:
    before, queued = LiveRun(is_started=True), LiveRun()
    window, updates = Window(live=before), {"live": queued, "status": "Waiting."}
    window.take(updates)
    assert (before.is_cancelled, queued.is_cancelled, window.live) == (True, False, queued)
    window.take({"live": queued, "clip": CLIP})
    assert (queued.is_cancelled, window.clip) == (False, CLIP), "the same run continues"
    assert updates == {"status": "Waiting."}

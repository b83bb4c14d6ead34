"""Views of the live tab: named tuples of component updates (see ``app.controls.widgets``)."""

from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.tabs.live.numbers import render_numbers
from stepscope.app.web.views import status_line
from stepscope.engine.live.frames import LiveStatus


class LiveView(NamedTuple):
    """Updates of the live tab; by default nothing changes."""

    window: Any = gr.skip()
    """The window's session."""
    begin: Any = gr.skip()
    """A state: its change begins the queued session."""
    withdraw: Any = gr.skip()
    """A state: its change removes the queued session from the queue."""
    status: Any = gr.skip()
    numbers: Any = gr.skip()
    monitor: Any = gr.skip()
    player: Any = gr.skip()
    start: Any = gr.skip()
    stop: Any = gr.skip()
    ask: Any = gr.skip()
    question: Any = gr.skip()
    open: Any = gr.skip()


def show_message(text: str, *, is_problem: bool = False) -> LiveView:
    """Return a view that changes the status line only."""
    return LiveView(status=status_line(text, is_problem=is_problem))


def show_status(text: str, status: LiveStatus, *, is_problem: bool = False) -> LiveView:
    """Return a view of the status line and of the numbers of a session."""
    return show_message(text, is_problem=is_problem)._replace(numbers=render_numbers(status))


def with_buttons(view: LiveView, *, is_running: bool, can_open: bool = False) -> LiveView:
    """Return a view with the buttons enabled for a running session, or for none."""
    return view._replace(
        start=gr.Button(interactive=not is_running),
        stop=gr.Button(interactive=is_running),
        ask=gr.Button(interactive=is_running),
        open=gr.Button(interactive=can_open),
    )

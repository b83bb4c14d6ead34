"""Views of the live tab, named tuples of component updates (see ``app.controls.widgets``), and its numbers."""

from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.player.views import status_line
from stepscope.app.templates import render
from stepscope.engine.live.frames import LiveStatus

EXPLAINED: Final[dict[str, str]] = {
    "decided": "frames for which the model has decided whether to speak and to update",
    "dropped": "frames that waited too long: the model or the encoder is too slow, and the latest frames count most",
    "without a picture": "instants at which the source delivered no picture",
    "not reached": "frames that still waited when the session ended",
    "lag": "from the arrival of the last decided picture to its decision",
    "real-time factor": "seconds of work for a second of video, over the last 64 frames; above 1, frames are dropped",
    "on time": "share of the decided and dropped frames that were decided within a second",
}
"""Explanation of each number by its label. The first two and the last three are always shown."""


def render_numbers(status: LiveStatus) -> str:
    """Return the numbers of a session as a line of HTML; empty before the first decision."""
    if not status.num_decided:
        return ""
    rarely = {"without a picture": status.num_without_picture, "not reached": status.num_not_reached}
    numbers = [  # label, value, and whether the model does not keep up
        ("decided", f"{status.num_decided:,}", False),
        ("dropped", f"{status.num_dropped:,}", status.num_dropped > 0),
        *((label, f"{count:,}", False) for label, count in rarely.items() if count),
        ("lag", f"{status.lag_s:.2f} s", False),
        ("real-time factor", f"{status.real_time_factor:.2f}", status.real_time_factor > 1),
        ("on time", f"{status.on_time_share:.0%}", False),
    ]
    return render("live_numbers", numbers=numbers, explained=EXPLAINED)


def render_explained() -> str:
    """Return the explanations of all numbers, which can be unfolded."""
    return render("live_explained", explained=EXPLAINED)


class LiveView(NamedTuple):
    """Updates of the live tab; by default nothing changes."""

    window: Any = gr.skip()
    begin: bool | None = False
    """No component, but whether the queued session follows."""
    withdraw: bool | None = False
    """No component, but whether the queued session leaves the queue."""
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

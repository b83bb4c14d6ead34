"""Updates of the live tab (see ``app.controls.widgets``), and its numbers."""

from typing import Final

import gradio as gr

from stepscope.app.controls.widgets import Updates
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


def show_message(text: str, *, is_problem: bool = False) -> Updates:
    """Return the update of the status line."""
    return Updates(status=status_line(text, is_problem=is_problem))


def show_status(text: str, status: LiveStatus, *, is_problem: bool = False) -> Updates:
    """Return the updates of the status line and of the numbers of a session."""
    return Updates(show_message(text, is_problem=is_problem), numbers=render_numbers(status))


def set_buttons(*, is_running: bool, can_open: bool = False) -> Updates:
    """Return the updates that enable the buttons for a running session, or for none."""
    return Updates(
        start=gr.Button(interactive=not is_running),
        stop=gr.Button(interactive=is_running),
        ask=gr.Button(interactive=is_running),
        open=gr.Button(interactive=can_open),
    )

"""Buttons of work that takes minutes, such as a sweep: they start and cancel it, and show its progress."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, Updates, wire
from stepscope.app.templates import render_note
from stepscope.app.window.live_run import Cancellable


class WorkButtons(NamedTuple):
    """The buttons that start and cancel work, and its progress as HTML."""

    start: Any
    cancel: Any
    progress: Any


def show_working(progress: str) -> Updates:
    """Return the buttons while work runs, with its progress as HTML."""
    return Updates(start=gr.Button(interactive=False), cancel=gr.Button(interactive=True), progress=progress)


def show_ended(text: str, *, is_problem: bool = False) -> Updates:
    """Return the buttons after work, with a text."""
    note = render_note(text, is_problem=is_problem) if text else ""
    return Updates(start=gr.Button(interactive=True), cancel=gr.Button(interactive=False), progress=note)


def begin() -> tuple[Cancellable, Updates]:
    """Return a new handle of work, which may wait for that of another window, and the buttons."""
    return Cancellable(), show_working(render_note("Waiting: this is done one at a time."))


def halt(live: Cancellable | None) -> Updates:
    """Request the end of work after the current video, and show that."""
    if live is not None:
        live.is_cancelled = True
    note = render_note("Cancelling: it ends after the current video or reply.")
    return Updates(show_working(note), cancel=gr.Button(interactive=False))


def cancel(cancelled: str, live: Cancellable | None) -> Updates:
    """Wait for the end of halted work, unless it has not started; show that it was ``cancelled``."""
    if live is not None:
        live.stop()
    return show_ended(cancelled)


def wire_work(
    buttons: WorkButtons,
    run: Callable[..., Any],
    inputs: Sequence[Any],
    view: Any,
    *,
    cancelled: str,
    **options: Any,
) -> tuple[Any, Any]:
    """Wire the buttons to the handler ``run`` of ``view``; return the events of its end and of its cancellation.

    The first input of ``run`` is the state with the handle. ``options`` are those of its event.
    """
    live = inputs[0]
    begun = wire(buttons.start.click, begin, None, (live, buttons), **AT_ONCE)
    running = wire(begun.success, run, list(inputs), view, **options, show_progress="hidden")
    halted = wire(buttons.cancel.click, halt, live, buttons, **AT_ONCE)
    ended = wire(halted.then, partial(cancel, cancelled), live, buttons, cancels=[running], **AT_ONCE)
    return running, ended

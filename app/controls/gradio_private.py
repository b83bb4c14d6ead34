"""The page's uses of Gradio's private parts; ``docs/development.md`` lists all that the project has."""

from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import MODEL_QUEUE


def list_waiting(page: gr.Blocks) -> list[str]:
    """Return the session hash of each event of a page that waits for the model, in the order of the queue.

    The events are runs, questions and sessions of all windows.
    """
    queue = page._queue.event_queue_per_concurrency_id.get(MODEL_QUEUE["concurrency_id"])
    return [event.session_hash for event in tuple(queue.queue)] if queue is not None else []


def has_events(page: gr.Blocks) -> bool:
    """Return whether an event of a page waits or runs."""
    queue = page._queue
    return any(queue.active_jobs) or any(one.queue for one in queue.event_queue_per_concurrency_id.values())


def read_state(page: gr.Blocks, state: gr.State, session_hash: str | None) -> Any:
    """Return the value that a ``gr.State`` has in a window; None if the window is not known."""
    windows = page.state_holder
    return windows[session_hash].get(state._id) if session_hash in windows else None


def drop_hidden_progress(page: gr.Blocks) -> None:
    """Take the status of events whose progress is hidden from all components of a page.

    With each message of any event, the browser sets the status of every component that once was an output, and for that
    copies the properties of the component and of all inside it: 0.3 s on this page.
    """
    for function in page.fns.values():
        if function.show_progress == "hidden":
            function.show_progress_on = ()

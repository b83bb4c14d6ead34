"""Event options, scripts, components and the wiring that all tabs share.

A *view* is a named tuple, possibly of views. The layout fills it with components, and a handler with their updates.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import wraps
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, Final
from uuid import uuid4

import gradio as gr

AT_ONCE: Final[dict[str, Any]] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""Options of events that never wait in the queue."""
LATEST: Final[dict[str, Any]] = {**AT_ONCE, "trigger_mode": "always_last"}
"""As ``AT_ONCE``, for handlers that show the state of their inputs: a change while one runs is shown after it."""
MODEL_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of events that need the model: one at a time, in a queue.

An event in it counts as waiting (``list_waiting``), so none enters it with nothing to do: a handler that finds
work changes a state (``begin``), and the ``change`` of this state is the event.
"""
CHAT_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "chat", "concurrency_limit": None, "api_visibility": "private"}
"""Options of questions, which pass this queue at once: they wait for a worker of the pool, with those of programs."""
SWEEP_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "sweep", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of sweeps, which load their own model: one at a time, in a queue of their own."""
THRESHOLD_SLIDER: Final[dict[str, Any]] = {
    "minimum": 0,
    "maximum": 1,
    "step": "any",
    "elem_classes": "threshold",
}
"""Options of a threshold slider, without a step that would round the value.

The player's script validates the number box of elements with this class.
"""
PREVIEW_THRESHOLDS_JS: Final = """(speak, update, named) => {
    const detail = named ? JSON.parse(named) : {speak, update};
    document.dispatchEvent(new CustomEvent('stepscope:threshold', {detail}));
}"""
"""Script of an event with both sliders as inputs: the player previews the thresholds, then requests the exact run.

A third input, if not empty, is JSON that replaces both: ``speak`` and ``update`` as far as they are set, and ``used``
with the name of a ``run`` and the thresholds of its named ``signals``.
"""
READ_PLAYHEAD_JS: Final = """(...inputs) => [
    ...inputs.slice(0, -1), String(document.querySelector('#player .ss')?.stopAtFrame?.() ?? '')
]"""
"""Script: pauses the video, and sets the last input to the frame at the playhead."""
_STATUS_LINE_JS = """
const line = () => element.querySelector('.status-line');
const show = () => { line().textContent = props.value ?? ''; };
watch('value', show);
show();
"""


def wire(
    event: Callable[..., Any], handler: Callable[..., Any], inputs: Any, components: tuple[Any, ...], **options: Any
) -> Any:
    """Register a handler that returns or yields a view of ``components``; return the event's dependency."""
    outputs = list_components(components)
    if isgeneratorfunction(handler):

        @wraps(handler)
        def handle_all(*values: Any) -> Iterator[dict[Any, Any]]:
            for view in handler(*values):
                yield by_component(components, view)

        return event(handle_all, inputs, outputs, **options)
    if isasyncgenfunction(handler):

        @wraps(handler)
        async def handle_async(*values: Any) -> AsyncGenerator[dict[Any, Any]]:
            async with aclosing(handler(*values)) as views:
                async for view in views:
                    yield by_component(components, view)

        return event(handle_async, inputs, outputs, **options)

    @wraps(handler)
    def handle(*values: Any) -> dict[Any, Any]:
        return by_component(components, handler(*values))

    return event(handle, inputs, outputs, **options)


def begin() -> str:
    """Return a new value of a state whose change begins an event in the queue of the model."""
    return uuid4().hex


def list_components(view: tuple[Any, ...]) -> list[Any]:
    """Return the components of a view, with those of its inner views. None marks a component that a page lacks."""
    parts = (list_components(part) if isinstance(part, tuple) else [part] for part in view if part is not None)
    return [one for part in parts for one in part]


def by_component(components: tuple[Any, ...], view: tuple[Any, ...]) -> dict[Any, Any]:
    """Return the updates of a view by component, as Gradio takes them.

    Example: components ``(status, (speak, update))`` and the view ``("Done.", (0.4, 0.5))`` give three updates. An
    update may itself be a tuple, such as the value of a ``gr.State``.
    """
    updates: dict[Any, Any] = {}
    for component, update in zip(components, view, strict=True):
        if component is not None:
            updates |= by_component(component, update) if isinstance(component, tuple) else {component: update}
    return updates


def read_event(event: gr.EventData, name: str) -> Any:
    """Return a value that the player's script sent with an event; None if it is missing."""
    try:
        return getattr(event, name)
    except (AttributeError, TypeError):  # the payload is not a mapping
        return None


def make_status_line(elem_id: str, *, value: str = "") -> gr.HTML:
    """Return a status line: an ARIA live region whose value is shown as plain text.

    The template is constant and the value is assigned to ``textContent``, so that file names and errors are not parsed
    as HTML.
    """
    return gr.HTML(
        value=value,
        html_template='<p class="status-line" role="status" aria-live="polite"></p>',
        js_on_load=_STATUS_LINE_JS,
        apply_default_css=False,
        elem_id=elem_id,
        padding=False,
    )

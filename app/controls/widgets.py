"""Event options, scripts, components, downloads and the wiring that all tabs share.

A *view* is a named tuple, possibly of views. The layout fills it with components, and a handler with their updates.
"""

import math
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing
from functools import partial, wraps
from html import escape
from inspect import isasyncgenfunction, isgeneratorfunction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr

from stepscope.app.formatting import as_sentence
from stepscope.engine.errors import EngineError

AT_ONCE: Final[dict[str, Any]] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""Options of events that never wait in the queue."""
LATEST: Final[dict[str, Any]] = {**AT_ONCE, "trigger_mode": "always_last"}
"""As ``AT_ONCE``, for handlers that show the state of their inputs: a change while one runs is shown after it."""
SCORING: Final[dict[str, Any]] = {**LATEST, "concurrency_limit": 2, "show_progress": "minimal"}
"""Options of events that score runs, which takes seconds: two at a time, so that many leave time for other windows."""
MODEL_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of events that need the model: one at a time, in a queue.

An event in it counts as waiting (``list_waiting``), so none enters it with nothing to do (``wire_first``).
"""
CHECK_QUEUE: Final[dict[str, Any]] = {**AT_ONCE, "concurrency_id": "checks", "concurrency_limit": 4}
"""Options of checks of uploads: one may take minutes, and the memory of ``MAX_PICTURES`` or ``MAX_PARTS``."""
REVIEW_QUEUE: Final[dict[str, Any]] = {**AT_ONCE, "concurrency_id": "reviews", "concurrency_limit": 1}
"""Options of events that show reviews or assign videos: one at a time, so that no view comes after a newer one."""
FIGURE_QUEUE: Final[dict[str, Any]] = {**AT_ONCE, "concurrency_id": "figures", "concurrency_limit": 2}
"""Options of figures, each of which starts a browser: two at a time, of two users."""
CHAT_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "chat", "concurrency_limit": None, "api_visibility": "private"}
"""Options of questions, which pass this queue at once: they wait for a worker of the pool, with those of programs."""
SWEEP_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "sweep", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of sweeps, which load their own model: one at a time, in a queue of their own."""
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


def wire(event: Callable[..., Any], handler: Callable[..., Any], inputs: Any, components: Any, **options: Any) -> Any:
    """Register a handler that returns or yields a view of ``components``, or one update; return the event's dependency.

    A ``partial`` gets the annotations of its function: Gradio passes requests and event data by them.
    """
    outputs = list_components(components)
    if isinstance(handler, partial):
        vars(handler)["__annotations__"] = handler.func.__annotations__
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


def wire_first(
    event: Callable[..., Any],
    handler: Callable[..., Any],
    inputs: Any,
    components: tuple[Any, ...],
    *,
    is_followed: Callable[[Any], bool],
    **options: Any,
) -> Any:
    """As ``wire``, for a handler whose ``success`` events run only after a view for which ``is_followed`` holds.

    After any other view its ``failure`` events run: in Gradio only an error keeps an event from following, and one that
    is not visible shows nothing.
    """
    if isinstance(handler, partial):
        vars(handler)["__annotations__"] = handler.func.__annotations__

    @wraps(handler)
    def handle(*values: Any) -> Iterator[Any]:
        view = handler(*values)
        yield view
        if not is_followed(view):
            raise gr.Error("", visible=False, print_exception=False)

    return wire(event, handle, inputs, components, **options)


def list_components(view: Any) -> list[Any]:
    """Return the components of a view, with those of its inner views. None marks a component that a page lacks."""
    if isinstance(view, tuple):
        return [one for part in view for one in list_components(part)]
    return [] if view is None else [view]


def by_component(components: Any, view: Any) -> dict[Any, Any]:
    """Return the updates of a view by component, as Gradio takes them.

    Example: components ``(status, (speak, update))`` and the view ``("Done.", (0.4, 0.5))`` give three updates. An
    update may itself be a tuple, such as the value of a ``gr.State``.
    """
    if not isinstance(components, tuple):
        return {} if components is None else {components: view}
    updates: dict[Any, Any] = {}
    for component, update in zip(components, view, strict=True):
        updates |= by_component(component, update)
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


SAVE_JS: Final = """(file) => {
    document.dispatchEvent(new CustomEvent('stepscope:saved', {detail: file?.orig_name ?? null}));
    if (!file) return;
    const link = document.createElement('a');
    link.href = file.url;
    link.download = file.orig_name;
    link.click();
}"""
"""Script that saves the file of a download component; the player's status line names it, or is cleared without one."""


def save_after(event: Any, file: Any) -> None:
    """Save the file of a download component in the browser after an event."""
    event.then(None, file, None, js=SAVE_JS, api_visibility="private")


def wire_download(event: Callable[..., Any], send: Callable[..., Any], inputs: Any, **options: Any) -> None:
    """Save the file of a handler that sends it by ``send_file`` in the browser."""
    file = gr.DownloadButton(visible="hidden")
    save_after(wire(event, send, inputs, file, **(AT_ONCE | options)), file)


def send_file(write: Callable[[Path], Path]) -> Generator[Any]:
    """Yield the path of the file that a function writes into a folder; None, and a warning, if that fails.

    The file is deleted after Gradio has copied it.
    """
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            yield str(write(Path(folder)))
        except (EngineError, ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None


_FOLD_JS: Final = """
const name = '%s', root = document.documentElement, button = element.querySelector('button');
let kept = '';
try { kept = localStorage['stepscope:' + name] ?? ''; } catch {}
const show = (state) => {
    root.dataset[name] = state;
    button.setAttribute('aria-expanded', state === 'open');
};
const choose = (state) => {
    kept = state;
    try { localStorage['stepscope:' + name] = state; } catch {}
    show(state);
};
button.addEventListener('click', () => choose(root.dataset[name] === 'open' ? 'folded' : 'open'));
document.addEventListener('stepscope:unfold', ({detail}) => { if (detail === name) choose('open'); });
document.addEventListener('stepscope:studied', ({detail}) => {
    if (name in detail && !kept) show(detail[name]);
});
show(kept || 'folded');
"""


def make_fold(name: str, label: str) -> gr.HTML:
    """Return the button that folds and unfolds the part with the element id ``name``.

    The root element has the state in ``data-NAME``, ``open`` or ``folded``, for the style sheet. The event
    ``stepscope:unfold`` opens the part of its ``detail``; ``stepscope:studied`` sets the states of its ``detail`` as
    long as the user has chosen none.
    """
    attributes = f'type="button" class="fold" aria-expanded="false" aria-controls="{name}"'
    return gr.HTML(
        html_template=f"<button {attributes}>{label}</button>",
        js_on_load=_FOLD_JS % name,
        apply_default_css=False,
        elem_id=f"{name}_fold",
        elem_classes="fold-box",
        padding=False,
    )


def make_tab(label: str, *, tab_id: str | None = None) -> gr.Tab:
    """Return a tab, by default with its label as id, which the page's address has; see ``address.js``."""
    tab_id = label if tab_id is None else tab_id
    return gr.Tab(label, id=tab_id, elem_id=f"tab_{tab_id}")


UPDATE_INTERVAL_S: Final = 0.5
"""Minimum time between two views of one handler, in seconds.

For every view the browser walks over all components of the page. Views at the pace of fast work block it for minutes.
"""


class Pace:
    """When the next view is due: at least ``interval_s`` after the last one. The first is ``due_at_once``, or waits."""

    def __init__(self, interval_s: float, *, due_at_once: bool = True) -> None:
        self._interval_s = interval_s
        self._shown_s = -math.inf if due_at_once else time.perf_counter()

    def is_due(self) -> bool:
        """Return whether a view is due now; the interval then begins again."""
        now_s = time.perf_counter()
        if now_s - self._shown_s < self._interval_s:
            return False
        self._shown_s = now_s
        return True

"""Event options, scripts, components, downloads and the wiring that all tabs share.

A *record* has named parts: a dataclass, a named tuple or a mapping. The layout fills it with components. A handler gets
one with their values, a *form*, and returns ``Updates`` by the same names (``wire``).
"""

import json
import math
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from html import escape
from inspect import Parameter, Signature, isasyncgenfunction, isgeneratorfunction, signature
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import gradio as gr
from pydantic import TypeAdapter, ValidationError

from stepscope.app.formatting import as_sentence
from stepscope.app.server.routes import Modules
from stepscope.app.window.live_run import Window
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates_in

AT_ONCE: Final[dict[str, Any]] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""Options of events that never wait in the queue."""
LATEST: Final[dict[str, Any]] = {**AT_ONCE, "trigger_mode": "always_last"}
"""As ``AT_ONCE``, for handlers that show the state of their inputs: a change while one runs is shown after it."""
SCORING: Final[dict[str, Any]] = {**LATEST, "concurrency_limit": 2, "show_progress": "minimal"}
"""Options of events that score runs, which takes seconds: two at a time, so that many leave time for other windows."""
MODEL_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of events that need the model: one at a time, in a queue.

An event in it counts as waiting (``list_waiting``), so none enters it with nothing to do (``make_ticket``).
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
_STATUS_LINE_JS = """
const line = () => element.querySelector('.status-line');
const show = () => { line().textContent = props.value ?? ''; };
watch('value', show);
show();
"""


MODULES: Final = Modules.read(Path(__file__).parents[1] / "player" / "static")
"""The page's program in the browser."""
_POSITIONAL: Final = Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Base of records that a script sends with an event, such as ``Step(by=1)``; a field may have a default."""


A = TypeVar("A", bound=Arguments)


class Updates(SimpleNamespace):
    """Updates of components by name, such as ``Updates(status="Done.")``; a component without one stays as it is."""

    def __init__(self, *others: "Updates", **named: Any) -> None:
        """Take the updates of ``others``, and named ones in place of those of the same name."""
        super().__init__()
        for other in others:
            vars(self).update(vars(other))
        vars(self).update(named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return gr.skip()


def wire(
    event: Callable[..., Any],
    handler: Callable[..., Any],
    inputs: Any,
    components: Any,
    *,
    script: str = "",
    **options: Any,
) -> Any:
    """Register a handler that returns or yields updates of ``components``; return the event's dependency.

    ``inputs`` is a component, a record of components, or a list of both. The handler gets one argument for each: the
    value, or the record of values; a ``script`` may change the values before (``call_script``). Requests, event data
    and ``Arguments`` of an event, by their annotations, are at their place among them. If the state of the ``Window``
    is one of the components, updates may name its fields.
    """
    slots = [*inputs] if isinstance(inputs, list) else [] if inputs is None else [inputs]
    outputs = list_components(components)
    windows = [one for one in outputs if isinstance(one, gr.State) and isinstance(one.value, Window)]
    outputs = [one for one in outputs if one not in windows]
    listed = [*windows, *list_components(tuple(slots))]  # a script may set the last input (addStory)
    asked = dict[int, type[Arguments]]()
    for place, parameter in enumerate(signature(handler).parameters.values()):
        if isinstance(hint := parameter.annotation, type) and issubclass(hint, gr.Request | gr.EventData | Arguments):
            if issubclass(hint, Arguments):
                asked[place], hint = hint, gr.EventData
            slots.insert(place, parameter.replace(kind=_POSITIONAL, annotation=hint))

    def call(values: Sequence[Any]) -> Any:
        rest = iter(values[len(windows) :])
        read = [read_record(slot, rest) for slot in slots]
        for place, kind in asked.items():
            read[place] = read_arguments(kind, read[place])
        return handler(*read)

    def convert(updates: Any, *values: Any) -> dict[Any, Any]:
        if windows:
            values[0].take(vars(updates))
        named = by_component(components, updates)
        return named if named or not outputs else gr.skip()  # Gradio takes an empty one for a value

    def handle(*values: Any) -> dict[Any, Any]:
        return convert(call(values), *values)

    def handle_all(*values: Any) -> Iterator[dict[Any, Any]]:
        for updates in call(values):
            yield convert(updates, *values)

    async def handle_async(*values: Any) -> AsyncGenerator[dict[Any, Any]]:
        async with aclosing(call(values)) as views:
            async for updates in views:
                yield convert(updates, *values)

    chosen: Any = handle
    if isgeneratorfunction(handler):
        chosen = handle_all
    elif isasyncgenfunction(handler):
        chosen = handle_async
    # Gradio finds requests and event data by the place and the annotation of their parameter
    parts = [*windows, *(one for slot in slots for one in list_components(slot))]
    marks = [one if isinstance(one, Parameter) else Parameter(f"_{at}", _POSITIONAL) for at, one in enumerate(parts)]
    chosen.__signature__ = Signature(marks)
    chosen.__annotations__ = {mark.name: mark.annotation for mark in marks if mark.annotation is not mark.empty}
    chosen.__name__ = getattr(handler, "__name__", "handle")
    if script:
        options["js"] = call_script(script)
    return event(chosen, listed, outputs, **options)


def call_script(name: str, *first: str) -> str:
    """Return the script of an event that calls a function of ``page.js``: with ``first``, then its inputs' values."""
    values = "".join(f"{json.dumps(value)}, " for value in first)
    address = json.dumps(f"{MODULES.address}/page.js")
    return f"async (...inputs) => (await import(new URL({address}, document.baseURI))).{name}({values}...inputs)"


def run_script(event: Callable[..., Any], name: str, inputs: Any = None, outputs: Any = None, *first: str) -> None:
    """Call a function of ``page.js`` at an event, without the server; it returns the values of ``outputs``."""
    event(None, inputs, outputs, js=call_script(name, *first), api_visibility="private")


_tickets = count(1)


def make_ticket() -> int:
    """Return a new value for a ``gr.State``, after which its ``change`` events run.

    A handler that returns none is not followed: so no event enters a queue with nothing to do.
    """
    return next(_tickets)


def list_parts(record: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a record by their names, of a tuple by position; None for a single component or value."""
    if isinstance(record, Mapping):
        return record
    if is_dataclass(record):
        return {part.name: getattr(record, part.name) for part in fields(record)}
    if isinstance(record, tuple):
        return dict(zip(getattr(record, "_fields", range(len(record))), record, strict=True))
    return None


def list_components(record: Any) -> list[Any]:
    """Return the components of a record, with those of its inner records. None marks one that a page lacks."""
    parts = list_parts(record)
    if parts is not None:
        return [component for part in parts.values() for component in list_components(part)]
    return [] if record is None else [record]


def read_record(shape: Any, values: Iterator[Any]) -> Any:
    """Return a record like ``shape`` with the next values in place of its components."""
    parts = list_parts(shape)
    if parts is None:
        return None if shape is None else next(values)
    read = {name: read_record(part, values) for name, part in parts.items()}
    if isinstance(shape, tuple) and not hasattr(shape, "_fields"):
        return tuple(read.values())
    return read if isinstance(shape, Mapping) else type(shape)(**read)


def by_component(components: Any, updates: Any) -> dict[Any, Any]:
    """Return updates by component, as Gradio takes them.

    ``Updates`` name a part of ``components`` each; a tuple has one for each part. Example: components ``(status,
    (speak, update))`` and updates ``("Done.", (0.4, 0.5))`` give three. An update of one component may itself be a
    tuple, such as the value of a ``gr.State``.
    """
    parts = list_parts(components)
    if parts is None:
        return {} if components is None else {components: updates}
    if isinstance(updates, Updates):
        pairs = [(parts[name], update) for name, update in vars(updates).items()]
    else:
        pairs = list(zip(parts.values(), updates, strict=True))
    return {one: value for part, update in pairs for one, value in by_component(part, update).items()}


def read_event(event: gr.EventData, name: str) -> Any:
    """Return a value that the player's script sent with an event; None if it is missing."""
    try:
        return getattr(event, name)
    except (AttributeError, TypeError):  # the payload is not a mapping
        return None


_adapt: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_arguments(kind: type[A], event: gr.EventData) -> A:
    """Return what a script sent with an event, checked. Raises ``gr.Error``, which the page shows, for other values."""
    sent = {part.name: read_event(event, part.name) for part in fields(kind)}
    known = {name: replace_surrogates_in(value) for name, value in sent.items() if value is not None}
    try:
        checked: A = _adapt(kind).validate_python(known)
        return checked
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        refusal = as_sentence(f"the page sent an invalid request: {where}: {first['msg']}; reload it")
        raise gr.Error(escape(refusal), print_exception=False) from error


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


def save_after(event: Any, file: Any) -> None:
    """Save the file of a download component in the browser after an event."""
    run_script(event.then, "saveFile", file)


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


def make_fold(name: str, label: str, *, is_kept: bool = True) -> gr.HTML:
    """Return the button that folds and unfolds the part with the element id ``name``; see ``dom/fold.js``.

    Other windows, and later ones, start with the user's choice if it ``is_kept``.
    """
    attributes = f'type="button" class="fold" aria-expanded="false" aria-controls="{name}"'
    return gr.HTML(
        html_template=f"<button {attributes}>{label}</button>",
        js_on_load=MODULES.make_script("dom/fold.js", settings={"name": name, "is_kept": is_kept}),
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

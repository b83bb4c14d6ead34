"""Changes of Gradio that keep a public page safe, and a live session open while its user decides to leave.

``docs/development.md`` lists all uses of its private parts.
"""

import math
import random
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

import gradio as gr
from anyio import CapacityLimiter
from gradio import processing_utils
from gradio.queueing import Event, Queue
from gradio.route_utils import GradioMultiPartParser, GradioUploadFile
from gradio.routes import templates
from gradio.state_holder import SessionState, StateHolder
from jinja2 import FunctionLoader
from starlette.datastructures import FormData, Headers

from stepscope.app.server import identity
from stepscope.app.server.identity import claim_session, client_address, current_user, current_visitor, signed_in
from stepscope.app.server.limits import declared_size
from stepscope.engine.io.files import show_turns
from stepscope.engine.turns import take_turns

MAX_SESSIONS: Final = 1000
"""Windows and programs whose state is kept, the latest ones."""

MAX_SESSION_CHARS: Final = 100
"""Longest name of a session; Gradio's has 11 characters."""
_LONG_SESSION: Final = f"The name of a session has at most {MAX_SESSION_CHARS} characters."
_FOREIGN_SESSION: Final = "This session is of another user; load the page again."

MAX_EVENTS: Final = 64
"""Events of one user, or of one address without accounts, that wait, run or are unread."""

MAX_EVENT_BYTES: Final = 32 * 2**20
"""Maximum size of the requests of these events together, in bytes."""

UNREAD_S: Final = 300.0
"""Time after which unread answers to a session are dropped, in seconds."""

MAX_THREADS: Final = 16
"""Handlers of one user, or address, that compute at a time: each takes its turn in Python."""

MAX_CHOSEN: Final = 100
"""Most values of a list of choices; runs and protocols are scored one by one, also if they are sent twice."""


def refuse_downloads() -> None:
    """Stop Gradio from fetching a file whose path is a URL: a download has no size limit."""

    async def refuse(*_: object, **__: object) -> NoReturn:
        raise gr.Error("This page fetches no files from other hosts; upload the file.", print_exception=False)

    processing_utils.async_ssrf_protected_download = refuse


def keep_no_values() -> None:
    """Stop Gradio from keeping a copy of all components, and the latest inputs, of each session for deep links.

    This page offers none. Each copy takes 0.7 MB of memory and blocks the server for 30 ms, and any client can begin
    sessions.
    """
    begin = SessionState.__init__

    def begin_empty(state: SessionState, blocks: gr.Blocks) -> None:
        begin(state, SimpleNamespace(default_config=blocks.default_config, blocks=()))

    def ignore(*_: object) -> None:
        """Keep nothing."""

    setattr(SessionState, "__init__", begin_empty)  # noqa: B010 - mypy refuses the assignments
    SessionState._update_value_in_config = ignore


def share_sessions() -> None:
    """Let the state of a new session replace the oldest one of the user who has the most, not that of another user.

    A session that only kept a connection open, for which Gradio needs no login, has no user. Long names are refused:
    names are kept, and any client can begin sessions. A session whose window was closed is removed after the time for
    which Gradio keeps its values: it removes only those that an event has set.
    """
    find = StateHolder.__getitem__
    users = WeakKeyDictionary[StateHolder, dict[str, str]]()

    def find_short(states: StateHolder, name: str) -> SessionState:
        if len(name) > MAX_SESSION_CHARS:
            raise ValueError(_LONG_SESSION)
        return find(states, name)

    def remove_closed(states: StateHolder) -> None:
        now = datetime.now()  # without a zone, as Gradio's
        with states.lock:
            for name, state in list(states.session_data.items()):
                kept = timedelta(seconds=state.STATE_TTL_WHEN_CLOSED)
                if state.is_closed and now - states.time_last_used.get(name, now) > kept:
                    remove(states, name)

    def remove(states: StateHolder, name: str) -> None:
        for records in (states.session_data, states.time_last_used, users.get(states, {})):
            records.pop(name, None)

    def update(states: StateHolder, name: str) -> None:
        with states.lock:
            users_of = users.setdefault(states, {})
            if name in states.session_data:
                states.session_data.move_to_end(name)
                users_of[name] = current_user.get() or users_of.get(name, "")
            if len(states.session_data) > states.capacity:
                ((user, _),) = Counter(users_of.get(kept, "") for kept in states.session_data).most_common(1)
                oldest = next(kept for kept in states.session_data if users_of.get(kept, "") == user)
                remove(states, oldest)

    setattr(StateHolder, "__getitem__", find_short)  # noqa: B010 - mypy refuses the assignments
    setattr(StateHolder, "update", update)  # noqa: B010
    setattr(StateHolder, "delete_all_expired_state", remove_closed)  # noqa: B010 - called once a second


def share_queue() -> None:
    """Share events, their bytes and threads among users, who wait in turns: each has as many as the limits say.

    Of the places of events that run some at a time, one user has at most half, but one in any case.
    """
    push, process = Queue.push, Queue.process_events
    kept: defaultdict[str, dict[str, tuple[str, float, int]]] = defaultdict(dict)
    """Session, time and bytes of the events of each user."""

    def is_kept(queue: Queue, event_id: str, session: str, began_s: float, _: int) -> bool:
        if event_id in queue.event_ids_to_events:
            return True
        messages = queue.pending_messages_per_session.get(session)
        if event_id not in queue.pending_event_ids_session.get(session, ()) or messages is None or messages.empty():
            return False
        if time.monotonic() - began_s < UNREAD_S:
            return True
        del queue.pending_messages_per_session[session]
        return False

    async def push_own(queue: Queue, body: Any, request: Any, username: str | None) -> Any:
        if len(body.session_hash or "") > MAX_SESSION_CHARS:
            return False, _LONG_SESSION, "error"
        if username and not claim_session(body.session_hash or "", username):
            return False, _FOREIGN_SESSION, "error"
        for user, own in list(kept.items()):
            kept[user] = {name: event for name, event in own.items() if is_kept(queue, name, *event)}
            if not kept[user]:
                del kept[user]
        user = username or client_address(request.scope)
        size = declared_size(Headers(scope=request.scope))
        num_bytes = size + sum(of_event for _, _, of_event in kept.get(user, {}).values())
        if len(kept.get(user, ())) >= MAX_EVENTS or num_bytes > MAX_EVENT_BYTES:
            reason = f"{MAX_EVENTS} actions of yours, or {MAX_EVENT_BYTES // 2**20} MiB, wait or run; try again later."
            return False, reason, "queue_full"
        pushed = await push(queue, body, request, username)
        if pushed[0]:
            kept[user][pushed[1]] = (body.session_hash, time.monotonic(), size)
            if (event := queue.event_ids_to_events.get(pushed[1])) is not None:
                events = queue.event_queue_per_concurrency_id[event.concurrency_id].queue
                events[:] = take_turns(events, _name_user)
        return pushed

    def get_next(queue: Queue) -> tuple[list[Event], bool, str] | None:
        running = Counter((job[0].concurrency_id, _name_user(job[0])) for job in queue.active_jobs if job)
        waiting = list(queue.event_queue_per_concurrency_id.items())
        random.shuffle(waiting)
        for places, events in waiting:
            limit = math.inf if events.concurrency_limit is None else events.concurrency_limit
            if events.current_concurrency < limit:
                for event in events.queue:
                    if running[places, _name_user(event)] < max(limit / 2, 1):
                        events.queue.remove(event)
                        return [event], False, places
        return None

    async def process_own(queue: Queue, events: list[Event], *values: Any, **options: Any) -> None:
        current_user.set(_name_user(events[0]))
        current_visitor.set(signed_in(events[0].request) or f"window {events[0].session_hash}")
        await process(queue, events, *values, **options)

    def create_limiter(page: gr.Blocks) -> None:
        page.limiter = SharedThreads()

    setattr(Queue, "push", push_own)  # noqa: B010 - mypy refuses the assignments
    setattr(Queue, "get_events", get_next)  # noqa: B010
    setattr(Queue, "process_events", process_own)  # noqa: B010
    setattr(gr.Blocks, "create_limiter", create_limiter)  # noqa: B010


def _name_user(event: Event) -> str:
    return event.username or client_address(event.request.scope)


class SharedThreads:
    """A limiter of threads, as anyio takes it, with ``MAX_THREADS`` for each user."""

    def __init__(self) -> None:
        self._limiters: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(MAX_THREADS))

    async def __aenter__(self) -> None:
        await self._limiters[current_user.get()].acquire()

    async def __aexit__(self, *_: object) -> None:
        limiter = self._limiters[current_user.get()]
        limiter.release()
        if not (limiter.borrowed_tokens or limiter.statistics().tasks_waiting):
            del self._limiters[current_user.get()]


def bound_choices() -> None:
    """Refuse more than ``MAX_CHOSEN`` values of a list of choices; log no unknown value, which is kept for ever."""
    read = gr.Dropdown.preprocess

    def read_short(dropdown: gr.Dropdown, value: Any) -> Any:
        if isinstance(value, list) and len(value) > MAX_CHOSEN:
            raise gr.Error(f"Choose at most {MAX_CHOSEN} values of a list.", print_exception=False)
        return read(dropdown, value)

    def ignore(*_: object) -> None:
        """Log nothing."""

    setattr(gr.Dropdown, "preprocess", read_short)  # noqa: B010 - mypy refuses the assignments
    setattr(gr.Dropdown, "_warn_if_invalid_choice", ignore)  # noqa: B010


def show_turns_in_components() -> None:
    """Show the names in lists of choices and the cells of tables with ``show_turns``; their values stay as they are."""
    to_data = gr.Dataframe.postprocess

    def set_choices(component: gr.Dropdown, choices: list[tuple[str, Any]]) -> None:
        vars(component)["choices"] = [(show_turns(name), value) for name, value in choices]

    def show_row(row: list[Any]) -> list[Any]:
        cells = [show_turns(cell) if isinstance(cell, str) else cell for cell in row]
        return [] if cells == row else ["" if cell is None else cell for cell in cells]  # [] shows the values

    def to_shown_data(table: gr.Dataframe, value: Any) -> Any:
        sent = to_data(table, value)
        shown = [show_row(row) for row in sent.data]
        return sent.model_copy(update={"metadata": {"display_value": shown}}) if any(shown) else sent

    setattr(gr.Dropdown, "choices", property(lambda dropdown: vars(dropdown)["choices"], set_choices))  # noqa: B010
    setattr(gr.Dataframe, "postprocess", to_shown_data)  # noqa: B010 - mypy refuses the assignments


def load_first(script: str) -> None:
    """Load a script, by its address, before Gradio's own; ``head`` is added to the page after Gradio has started."""
    pages = templates.env
    loader = pages.loader
    assert loader is not None

    def read_page(name: str) -> str:
        source: str = loader.get_source(pages, name)[0]
        return source.replace("<script>", f'<script src="{script}"></script><script>', 1)

    pages.loader = FunctionLoader(read_page)


def remove_failed_uploads() -> None:
    """Let Gradio remove the files of an upload that is refused, that its client leaves, or that fills the disk.

    They would count as uploads, and keep the disk full, for a day.
    """
    parse = GradioMultiPartParser.parse

    async def parse_or_remove(parser: GradioMultiPartParser) -> FormData:
        try:
            form: FormData = await parse(parser)
        except BaseException:
            for file in parser._files_to_close_on_error:
                with suppress(OSError):  # a full disk does not take the rest of the file
                    file.close()
                Path(file.name).unlink(missing_ok=True)
            raise
        for file in form.getlist("files"):  # its digest alone gives no right to read it
            if isinstance(file, GradioUploadFile):
                identity.share_upload(file.sha.hexdigest(), current_user.get())
        return form

    setattr(GradioMultiPartParser, "parse", parse_or_remove)  # noqa: B010 - mypy refuses the assignment

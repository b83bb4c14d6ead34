"""The components of a conversation, and their updates while an answer is written."""

import time
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.chat.window import Branches, ChatWindow
from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace, Updates
from stepscope.app.formatting import format_clock
from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, AnswerEvent, Prefilled, Prefilling
from stepscope.engine.chat.service import Leased, QueuePlace
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.plurals import format_count

MIN_WAIT_S: Final = 0.1
"""Shortest wait before an answer that its status reports: encoding of the pictures, and the queue."""


class AskView(NamedTuple):
    """The components of a conversation; None for one that the panel or tab does not have."""

    window: Any
    chat: Any
    branch: Any
    question: Any
    status: Any
    stop: Any
    regenerate: Any
    promote: Any
    """The buttons that copy a turn to the reference or the next run."""


def show_window(window: ChatWindow, status: str, *, partial: str = "", is_running: bool) -> Updates:
    """Return the view of a conversation; ``partial`` is the running answer so far."""
    has_answer = bool(window.answered) and not is_running
    return Updates(
        window=window,
        chat=window.messages(partial),
        branch=_show_branches(window.branches, is_running=is_running),
        status=status,
        stop=gr.update(interactive=is_running),
        regenerate=gr.update(interactive=has_answer),
        promote=gr.update(visible=has_answer),
    )


def _show_branches(branches: Branches, *, is_running: bool) -> Any:
    choices = [(replace_surrogates(label), index) for index, label in enumerate(branches.describe())]
    is_one = len(choices) == 1
    return gr.update(choices=choices, value=branches.shown_index, visible=not is_one, interactive=not is_running)


class AnswerDisplay:
    """The view while an answer is written.

    ``began`` is when the question was asked, on ``time.perf_counter``.
    """

    def __init__(self, window: ChatWindow, began: float) -> None:
        self._window, self._began = window, began
        self._text, self._reuse, self._pace = "", "no words yet", Pace(UPDATE_INTERVAL_S)
        self._waited_s = 0.0

    def show(self, event: QueuePlace | Leased | AnswerEvent) -> Updates | None:
        """Return the view after an event; None to leave it as it is."""
        if isinstance(event, QueuePlace):
            return Updates(status=_describe_place(event))
        if isinstance(event, Leased):
            self._waited_s = time.perf_counter() - self._began
        elif isinstance(event, Prefilling):
            return Updates(status=f"Reading the context: {format_count(event.num_tokens, 'token')}.")
        elif isinstance(event, Prefilled):
            self._reuse = f"{event.cached_tokens} of {format_count(event.prompt_tokens, 'prompt token')} reused"
        elif isinstance(event, AnswerDelta):
            return self._add(event.text)
        elif isinstance(event, AnswerEnd):
            return self._end(event)
        return None

    def _add(self, text: str) -> Updates | None:
        self._text += text
        if not self._pace.is_due():
            return None
        return show_window(self._window, "Answering.", partial=self._text, is_running=True)

    def _end(self, end: AnswerEnd) -> Updates:
        window = self._window
        window.branches, window.is_waiting = window.branches.answered(end.text), False
        kind = "Stopped" if window.request.is_stopped else "Answered"  # not at the maximum length
        place = "" if window.time_s is None else f" at {format_clock(window.time_s, digits=1)}"
        return show_window(window, f"{kind}{place}: {self._reuse}{self._describe_times()}.", is_running=False)

    def _describe_times(self) -> str:
        """Return the time to the first token, and the wait before it."""
        timing = self._window.request.timing
        if timing is None:
            return ""
        first = f", first token after {1000 * timing.first_s:.0f} ms"
        is_long = self._waited_s >= MIN_WAIT_S
        return first + (f"; before it {self._waited_s:.1f} s for pictures and queue" if is_long else "")


def _describe_place(place: QueuePlace) -> str:
    before = format_count(place.position - 1, "question is", "questions are")
    ahead = "Your question is next" if place.position == 1 else f"{before} ahead of yours"
    eta = "" if place.eta_s is None else f"; about {max(1, round(place.eta_s))} s to wait"
    return f"{ahead}{eta}."

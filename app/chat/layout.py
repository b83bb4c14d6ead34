"""Parts and wiring that the panel *Ask* and the tab *Chat* share."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, Final

import gradio as gr

from stepscope.app.chat import handlers
from stepscope.app.chat.views import AskView
from stepscope.app.controls.widgets import AT_ONCE, CHAT_QUEUE, LATEST, run_script, wire
from stepscope.app.server.identity import signed_in
from stepscope.app.window.context import AppContext

BUNDLED_QUESTIONS: Final = ("What is next?", "Did I do that right?", "How many steps are left?")
OTHER_NOTE: Final = (
    "The loaded model answers as it was trained: if it was trained on dialogues about tasks only, it has no words for "
    "other questions, and none about its reasons."
)


def make_chat(elem_id: str, *, height: int, placeholder: str) -> Any:
    """Return the list of questions and answers, shown as plain text."""
    return gr.Chatbot(
        label="Questions and answers",
        show_label=False,
        height=height,
        editable="user",
        buttons=[],
        feedback_options=None,
        render_markdown=False,
        group_consecutive_messages=False,  # Gradio cannot edit a group with a picture
        placeholder=placeholder,
        elem_id=elem_id,
    )


def make_examples(question: Any, *, script: str) -> None:
    """Make a button for each question that the bundled checkpoint answers; the ``script`` writes it into the box."""
    for text in BUNDLED_QUESTIONS:
        fill = gr.Button(text, size="sm", min_width=80)
        run_script(fill.click, script, question, question, text)


def wire_answers(
    context: AppContext,
    view: AskView,
    starts: Sequence[Any],
    *,
    threads: ThreadPoolExecutor,
    build: Callable[..., Any],
    inputs: Sequence[Any],
) -> list[Any]:
    """Wire the answers of a conversation; return the events that write them.

    ``starts`` are the events that show a new question. ``build`` takes the values of ``inputs`` and returns the
    ``build`` of ``handlers.answer``, which runs in ``threads``.
    """

    async def answer(request: gr.Request, window: Any, *values: Any) -> Any:
        user = signed_in(request)
        owner = f"window {request.session_hash}" if user is None else f"user {user}"
        async with aclosing(handlers.answer(context, threads, build(*values), window, owner=owner)) as views:
            async for view in views:
                yield view

    again = [
        wire(view.regenerate.click, handlers.queue_again, view.window, view, **AT_ONCE),
        wire(view.chat.edit, handlers.queue_edit, view.window, view, **AT_ONCE),
    ]
    answers = [
        wire(
            start.then,
            answer,
            [view.window, *inputs],
            view,
            **CHAT_QUEUE,
            show_progress="minimal",
            show_progress_on=view.status,
        )
        for start in (*starts, *again)
    ]
    view.stop.click(handlers.stop, view.window, None, **AT_ONCE)
    wire(view.branch.input, handlers.show_branch, [view.window, view.branch], view, **LATEST)
    return answers


def wire_clearing(view: AskView, events: Sequence[Any], answers: Sequence[Any]) -> None:
    """Begin a new conversation on some events; an answer that is being written is shown no further."""
    stopped = gr.on(events, handlers.stop, view.window, None, cancels=answers, **AT_ONCE)
    wire(stopped.then, handlers.clear, view.window, view, **AT_ONCE)

"""*Ask*: a question about the shown run in words, answered by a served model with links that open in the player."""

from collections.abc import Generator
from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.agents.asking import Answer, answer_question
from stepscope.app.agents.tools import Tools
from stepscope.app.agents.workspace import Caller, Workspace
from stepscope.app.controls.cancellable import WorkButtons, show_ended, show_working, wire_work
from stepscope.app.controls.widgets import Updates, read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.formatting import as_sentence
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.opening import open_moment
from stepscope.app.player.views import PlayerView
from stepscope.app.templates import render, render_note
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.landing import Destination
from stepscope.app.window.live_run import Cancellable
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import strip_text
from stepscope.eval.served.chat import ChatClient, Endpoint

MAX_QUESTION_CHARS: Final = 2000
_NO_ENDPOINT: Final = (
    "Start the page with --endpoint http://HOST:PORT/v1 and --model NAME, a served model that calls tools, to ask "
    "about runs in words."
)
_NO_MODEL: Final = "Ask reads what the run folder has and runs no model"
_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "ask", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of questions: one at a time on the whole page."""
_OPEN_JS: Final = """// triggers ["open"]
element.addEventListener('click', (event) => {
    const link = event.target.closest('a');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    trigger('open', {...link.dataset});
});
"""


def ask(
    workspace: Workspace, endpoint: Endpoint, handle: Cancellable, name: str | None, question: str | None
) -> Generator[Updates]:
    """Answer a question about a run; yield each step, then the answer as HTML."""
    handle.is_started = True
    tools = Tools(workspace, Caller(may_write=False, address=""))
    try:
        question = strip_text(question or "")
        if not name or not 0 < len(question) <= MAX_QUESTION_CHARS:
            raise ValueError(f"choose a run, and type a question of at most {MAX_QUESTION_CHARS} characters")
        yield Updates(show_working(render_note(f"{endpoint.model} reads the question.")), answer="")
        with ChatClient(endpoint, is_judge=True, is_cancelled=lambda: handle.is_cancelled) as client:
            for step in answer_question(client, tools, question, run=name):
                if isinstance(step, Answer):
                    yield Updates(show_ended(""), answer=render("answer", answer=step))
                else:
                    yield show_working(render_note(f"{endpoint.model} calls {step}"))
    except (EngineError, ValueError, OSError) as error:
        sentence = as_sentence(str(error).replace(endpoint.url, "the served model"))  # others may see the page
        yield show_ended(sentence, is_problem=True)
    finally:
        handle.ended.set()


def open_cited(context: AppContext, batches: BatchContext, event: gr.EventData) -> PlayerView:
    """Show the moment of a link of an answer in the player."""
    run, video_id, time_s = (str(read_event(event, part) or "") for part in ("run", "video", "time"))
    there = Destination(at=float(time_s) if time_s.replace(".", "", 1).isdecimal() else 0.0)
    return open_moment(context, batches, video_id, names=(run,), destination=there)


def make_ask_panel(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, *, runs: Any, in_player: InPlayer
) -> None:
    """Lay out and wire the box, or say how the page gets a served model."""
    if context.endpoint is None:
        gr.HTML(render_note(_NO_ENDPOINT), elem_id="ask_run_progress", padding=False)
        return
    question = gr.Textbox(
        label="Ask about this run",
        placeholder="Which steps are confused when the light is low?",
        lines=2,
        max_length=MAX_QUESTION_CHARS,
        elem_id="ask_run",
    )
    with gr.Row():
        start = gr.Button("Ask", variant="primary", size="sm", elem_id="start_ask_run")
        cancel = gr.Button("Cancel", variant="stop", size="sm", interactive=False, elem_id="cancel_ask_run")
    progress = gr.HTML(elem_id="ask_run_progress", padding=False)
    answer = gr.HTML(js_on_load=_OPEN_JS, elem_id="answered", padding=False)
    run = partial(ask, Workspace(batches=batches, store=reviews.store, model_problem=_NO_MODEL), context.endpoint)
    buttons = WorkButtons(start=start, cancel=cancel, progress=progress)
    view = {**buttons._asdict(), "answer": answer}
    wire_work(buttons, run, [gr.State(None), runs, question], view, cancelled="Cancelled.", **_QUEUE)
    in_player.wire(answer.open, partial(open_cited, context, batches))

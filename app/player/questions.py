"""The question in the run: asked at the playhead, and answered at this frame in the context of the run.

A run that streams takes it at its next frame. A finished run is streamed again with it, and reuses the frames before.
The panel *Ask* (``app.chat``) answers beside the run, which it never changes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, READ_PLAYHEAD_JS, wire
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.player.opening import show_running_buttons
from stepscope.app.player.views import PlayerView, show_status
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, PlannedQuestion, Window
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.live.questions import check_question
from stepscope.engine.records import UserTurn


def wire_question(event: Callable[..., Any], context: AppContext, *, question: Any, view: dict[str, Any]) -> None:
    """Wire the event that asks in the run."""
    inputs, outputs = [view["window"], question, gr.Textbox(visible="hidden")], {**view, "question": question}
    wire(event, partial(ask_in_run, context), inputs, outputs, js=READ_PLAYHEAD_JS, **AT_ONCE)


def ask_in_run(context: AppContext, window: Window, text: str | None, playhead: str | None) -> PlayerView:
    """Ask at the frame of the playhead, or at the next frame of a run that streams beyond it."""
    frame = int(playhead) if playhead and playhead.isdecimal() and len(playhead) < 10 else 0
    live = window.live
    try:
        question = check_question(replace_surrogates(text or ""))
        if live is not None and live.increments is not None and live.asked is not None:
            live.asked.ask(question, frame=frame)
            status = "Asked in the run: its next frame answers."
            return PlayerView(show_status(status), question="")
        planned = _plan(context, live, question, frame)
    except ValueError as error:
        return show_status(as_sentence(error), is_problem=True)
    status = f"Waiting to run again with the question at {format_clock(planned.turn.time_s, digits=1)}."
    return PlayerView(show_status(status), show_running_buttons(LiveRun(question=planned)), question="")


def _plan(context: AppContext, live: LiveRun | None, question: str, frame: int) -> PlannedQuestion:
    """Return the plan of a finished run with a question. Raises ``ValueError`` if it cannot be streamed again."""
    if live is None or (live.run is None and live.ended.is_set()):
        raise ValueError("there is no run to ask in; press Run first")
    if live.run is None or not live.run.outputs or not live.ended.is_set():
        raise ValueError("the run is about to start or to end; ask again in a moment")
    run = live.run
    if run.model_digest != context.checkpoint.digest:
        raise ValueError("this run was made with a different checkpoint, which cannot be asked here")
    if run.branch is not None:
        raise ValueError("this run is a branch: ask in its tab What if")
    turn = UserTurn(time_s=min(frame, len(run.outputs) - 1) / run.config.fps, text=question)
    task = replace(run.task, questions=(*run.task.questions, turn))
    again = run.before_first_frame(task=task, settings=context.settings)
    return PlannedQuestion(turn=turn, run=again, num_frames=len(run.outputs), recording=live.recording)

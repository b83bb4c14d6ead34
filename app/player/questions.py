"""The question in the run: asked at the playhead, and answered at this frame in the context of the run.

A run that streams takes it at its next frame. A finished run is streamed again with it, and reuses the frames before.
The panel *Ask* (``app.chat``) answers beside the run, which it never changes.
"""

from dataclasses import replace

from stepscope.app.chat.window import Question
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.player.opening import show_running_buttons
from stepscope.app.player.views import PlayerView, show_status
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, PlannedQuestion, Window
from stepscope.engine.live.questions import check_question
from stepscope.engine.records import UserTurn


def ask_in_run(context: AppContext, window: Window, asked: Question) -> PlayerView:
    """Ask at the frame of the playhead, or at the next frame of a run that streams beyond it."""
    live, frame = window.live, asked.frame
    try:
        question = check_question(asked.text)
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
    return PlannedQuestion(turn=turn, run=again, known=run.outputs, recording=live.recording)

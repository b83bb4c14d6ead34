"""The panel *Ask* beside the player: layout, wiring, and uses of an answered question in reference and next run."""

from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.chat import handlers
from stepscope.app.chat.layout import OTHER_NOTE, make_chat, make_examples, wire_answers, wire_clearing
from stepscope.app.chat.prompts import EncodedClips, run_prompt
from stepscope.app.chat.views import AskView
from stepscope.app.chat.window import ChatWindow
from stepscope.app.controls.widgets import AT_ONCE, make_status_line, run_script
from stepscope.app.player.commands import wire_command
from stepscope.app.player.component import patch_player
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Window
from stepscope.engine.dialogue import format_user_turn
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.records import UserTurn

BUNDLED_NOTE: Final = "The bundled model knows only the three questions below."
IN_RUN_NOTE: Final = "**Ask in the run** adds the question to the run, which continues from there."

QUESTION, ANSWER, CORRECTION = "user", "assistant", "correction"
"""Kinds of turns: of the user, of the assistant, and the text of the nearest assistant turn of the reference."""
PROMOTIONS: Final = {
    QUESTION: ("Question → reference", "promote"),
    ANSWER: ("Answer → reference", "promote_answer"),
    CORRECTION: ("Answer corrects the reference", "promote_correction"),
}
"""Label and element id of the buttons that open a form of the player, by kind of turn."""


def make_ask_panel(context: AppContext, *, shown: Any, video: Any, player: Any, user_turns: Any) -> Any:
    """Make the panel for the run in ``shown``, the state of the ``Window``; a new ``video`` begins a new conversation.

    The ``player`` gets turns for the reference. Returns the box of the question.

    ``user_turns`` is the text box of the user turns of the next run.
    """
    window = gr.State(None)
    with gr.Column(elem_id="ask"):
        gr.Markdown(f"### Ask about this moment\n{BUNDLED_NOTE if context.model_warning else OTHER_NOTE} {IN_RUN_NOTE}")
        branch = gr.Dropdown([], label="Branch", visible=False, elem_id="ask_branch")
        chat = make_chat(
            "asked",
            height=200,
            placeholder="The answer continues from all that the model saw up to the playhead.",
        )
        with gr.Row(equal_height=True):
            question = gr.Textbox(
                label="Question at the playhead (/)", placeholder="Your question", lines=1, scale=8, elem_id="question"
            )
            ask = gr.Button("Ask", variant="primary", min_width=80, elem_id="ask_button")
            in_run = gr.Button("Ask in the run", min_width=130, elem_id="ask_in_run")
            stop = gr.Button("Stop", variant="stop", min_width=80, interactive=False, elem_id="stop_answer")
        status = make_status_line("ask_status")
        with gr.Row(elem_id="ask_actions"):
            if context.model_warning:
                make_examples(question, script="fillQuestion")
            regenerate = gr.Button("Answer again", size="sm", min_width=80, interactive=False, elem_id="answer_again")
            clear = gr.Button("New conversation", size="sm", min_width=80, elem_id="new_chat")
        with gr.Row(visible=False, elem_id="ask_promote") as promote:
            buttons = {
                kind: gr.Button(label, size="sm", min_width=80, elem_id=elem_id)
                for kind, (label, elem_id) in PROMOTIONS.items()
            }
            to_run = gr.Button("Question → next run", size="sm", min_width=80, elem_id="promote_run")
    view = AskView(window, chat, branch, question, status, stop, regenerate, promote)
    for event, name in ((ask.click, "ask_beside"), (question.submit, "ask_beside"), (in_run.click, "ask_in_run")):
        run_script(event, "askAtPlayhead", question, None, name)
    starts = [wire_command(player, "ask_beside", handlers.queue_question, [window, shown], view)]
    clips = EncodedClips()

    def build(shown: Window) -> Any:
        return partial(run_prompt, context, clips, live=shown.live)

    answers = wire_answers(context, view, starts, threads=clips.threads, build=build, inputs=[shown])
    wire_clearing(view, [clear.click, chat.clear, video.change], answers)
    for kind, button in buttons.items():
        button.click(partial(_send_turn, kind), [window, shown], player, **AT_ONCE)
    to_run.click(add_user_turn, [window, shown, user_turns], [user_turns, status], **AT_ONCE)
    return question


def _send_turn(kind: str, window: ChatWindow | None, shown: Window) -> Any:
    return patch_player(turn=propose_turn(kind, window, shown))


def propose_turn(kind: str, window: ChatWindow | None, shown: Window) -> dict[str, Any] | None:
    """Return the last question or answer for the player's form of a turn of the reference; None without one.

    ``kind`` is ``QUESTION``, ``ANSWER`` or ``CORRECTION``.
    """
    time_s = _find_time(window, shown)
    if window is None or time_s is None:
        return None
    turn = window.answered[-1]
    text = turn.question if kind == QUESTION else turn.answer
    return {"as": kind, "text": " ".join((text or "").split()), "time_s": time_s}


def add_user_turn(window: ChatWindow | None, shown: Window, typed: str | None) -> tuple[str, str]:
    """Add the last question to the user turns of the next run; return them and a status."""
    time_s, lines = _find_time(window, shown), replace_surrogates(typed or "").splitlines()
    if window is None or time_s is None:
        return "\n".join(lines), "Ask a question first."
    line = format_user_turn(UserTurn(time_s=time_s, text=" ".join(window.answered[-1].question.split())))
    if line in lines:
        return "\n".join(lines), "The next run asks this already: see User turns, left."
    return "\n".join([*filter(str.strip, lines), line]), "Added to User turns, left: Run streams the video with it."


def _find_time(window: ChatWindow | None, shown: Window) -> float | None:
    run = shown.run
    if window is None or not window.answered or run is None or not run.outputs:
        return None
    return window.time_s

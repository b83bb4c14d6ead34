"""The tab *Chat*: conversations of text and pictures, without a video."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.chat import handlers
from stepscope.app.chat.layout import OTHER_NOTE, make_chat, make_examples, wire_answers, wire_clearing
from stepscope.app.chat.prompts import DEFAULT_SYSTEM, NO_FREE_CONVERSATION, FreeCodec, free_prompt
from stepscope.app.chat.views import AskView
from stepscope.app.controls.widgets import AT_ONCE, make_status_line, run_script, wire
from stepscope.app.core.pictures import ENDINGS
from stepscope.app.formatting import as_sentence
from stepscope.app.window.context import AppContext
from stepscope.engine.dialogue import initial_state
from stepscope.engine.model.prompt import schema_text

BUNDLED_NOTE: Final = (
    "Without a video. The bundled model was trained to answer three questions about a task: *What is next?*, "
    "*Did I do that right?* and *How many steps are left?* It knows the task only from the system prompt on the "
    "left, and from the pictures. To other questions it writes words without meaning."
)


def make_chat_tab(context: AppContext) -> None:
    """Lay out and wire the tab."""
    window = gr.State(None)
    can_chat = isinstance(context.checkpoint.prompt, FreeCodec)
    with gr.Row():
        with gr.Column(scale=3, min_width=200, elem_classes="setup"):
            system = gr.Textbox(
                _first_system(context),
                label="System prompt",
                info="The model reads it before the conversation.",
                lines=12,
                max_lines=24,
                elem_id="chat_system",
            )
            clear = gr.Button("New conversation", elem_id="chat_new")
        with gr.Column(scale=11, min_width=640, elem_classes="work", elem_id="chat_work"):
            note = BUNDLED_NOTE if context.model_warning else f"Without a video. {OTHER_NOTE}"
            gr.Markdown(note if can_chat else as_sentence(NO_FREE_CONVERSATION).capitalize())
            branch = gr.Dropdown([], label="Branch", visible=False, elem_id="chat_branch")
            chat = make_chat("chat_turns", height=420, placeholder="Ask a question, with pictures or without.")
            question = gr.MultimodalTextbox(
                label="Question, with pictures or without",
                placeholder="Your question",
                file_types=list(ENDINGS),
                file_count="multiple",
                sources=["upload"],
                submit_btn="Ask",
                interactive=can_chat,
                elem_id="chat_question",
            )
            with gr.Row(elem_id="chat_actions"):
                if context.model_warning:
                    make_examples(question, script="fillMessage")
                regenerate = gr.Button(
                    "Answer again", size="sm", min_width=80, interactive=False, elem_id="chat_answer_again"
                )
                stop = gr.Button(
                    "Stop", size="sm", variant="stop", min_width=80, interactive=False, elem_id="chat_stop"
                )
            status = make_status_line("chat_status", value="No question yet.")
    view = AskView(window, chat, branch, question, status, stop, regenerate, promote=None)
    started = wire(question.submit, handlers.queue_message, [window, question], view, **AT_ONCE)

    def build(system: Any) -> Any:
        return partial(free_prompt, context, system=system)

    threads = ThreadPoolExecutor(1, thread_name_prefix="chat-pictures")
    answers = wire_answers(context, view, [started], threads=threads, build=build, inputs=[system])
    run_script(chat.change, "labelPictures")
    wire_clearing(view, [clear.click, chat.clear], answers)


def _first_system(context: AppContext) -> str:
    clip = context.opening_clip
    if not context.model_warning or clip is None or clip.sample is None:
        return DEFAULT_SYSTEM
    steps = clip.sample.steps
    return schema_text(goal=clip.sample.goal, steps=steps, state=initial_state(steps, {}))

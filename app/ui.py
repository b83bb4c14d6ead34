"""The page's layout and its wiring; what happens is in ``app.handlers``.

Texts of the model, of dialogues and of file names are shown in text boxes and table cells only, never as markup.
"""

from functools import partial
from typing import Any

import gradio as gr

from app import handlers
from app.handlers import Bench
from app.transcript import HEADERS, STATE_HEADERS
from app.views import WIDTHS, Buttons, ClipView, RunView

INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."
STEPS_HINT = "S1: attach the wheel\nS2: put on the roof"
SCROLL_TRANSCRIPT = """() => setTimeout(() => {
    const rows = document.querySelector('#transcript .virtual-table-viewport');
    if (rows) rows.scrollTop = document.querySelector('#run').disabled ? rows.scrollHeight : 0;
}, 100)"""
"""Show the newest row while a run goes on, and the first when it has ended."""
AT_ONCE: dict[str, Any] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
"""For events that never wait for another's end."""


def build_page(bench: Bench) -> gr.Blocks:
    """Build the page around a model and the bundled videos; theme and style are given to ``launch``."""
    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        clip, live = gr.State(None), gr.State(None)
        gr.Markdown(INTRODUCTION, elem_id="title")
        with gr.Row():
            with gr.Column(scale=3, min_width=300):
                chosen = _chooser(bench)
                upload = gr.File(label="or upload a video", height=120, elem_id="upload")
                with gr.Row():
                    run_button = gr.Button("Run", variant="primary", min_width=100, elem_id="run")
                    stop_button = gr.Button("Stop", variant="stop", min_width=100, interactive=False, elem_id="stop")
                goal = gr.Textbox(label="Goal", placeholder="build the toy truck", elem_id="goal")
                steps = gr.Textbox(label="Steps, one a line", placeholder=STEPS_HINT, lines=4, elem_id="steps")
                user_turns = gr.Textbox(
                    label="User turns, one a line (optional)",
                    placeholder="12.5: What is next?",
                    lines=2,
                    elem_id="user_turns",
                )
                speak = gr.Slider(0, 1, 0.5, step=0.01, label="Speak threshold", elem_id="speak_threshold")
                update = gr.Slider(0, 1, 0.5, step=0.01, label="Update threshold", elem_id="update_threshold")
            with gr.Column(scale=10, min_width=640):
                status = gr.Textbox(
                    show_label=False, container=False, interactive=False, lines=1, max_lines=4, elem_id="status"
                )
                progress = gr.HTML(elem_id="progress", padding=False)
                with gr.Row():
                    with gr.Column(scale=4):
                        video = gr.Video(label="Video", interactive=False, height=330, buttons=[], elem_id="video")
                    with gr.Column(scale=6):
                        transcript = _transcript()
                scores = gr.HTML(elem_id="scores", padding=False)
                charts = gr.Plot(show_label=False, elem_id="charts")
                states = _states()

        clip_view = ClipView(
            clip=clip, video=video, chosen=chosen, upload=upload, goal=goal, steps=steps, user_turns=user_turns
        )
        run_view = RunView(
            status=status, progress=progress, transcript=transcript, scores=scores, charts=charts, states=states
        )
        buttons = Buttons(live=live, run=run_button, stop=stop_button)
        everything = [*clip_view, *run_view, *buttons]

        streaming = run_button.click(handlers.begin, None, [*run_view, *buttons], **AT_ONCE).then(
            partial(handlers.stream, bench),
            [live, clip, goal, steps, user_turns, speak, update],
            list(run_view),
            concurrency_id="model",
            concurrency_limit=1,
            show_progress="minimal",
            show_progress_on=progress,
            api_visibility="private",
        )
        ending = streaming.then(handlers.end, live, list(buttons), **AT_ONCE)
        stop_button.click(partial(handlers.stop, bench), live, [*run_view, *buttons], cancels=[streaming], **AT_ONCE)
        show_demo, show_upload = partial(handlers.choose_demo, bench), partial(handlers.accept_upload, bench)
        page.load(show_demo, [live, chosen], everything, **AT_ONCE)
        chosen.input(show_demo, [live, chosen], everything, cancels=[streaming], **AT_ONCE)
        gr.on(
            [upload.upload, upload.clear], show_upload, [live, clip, upload], everything, cancels=[streaming], **AT_ONCE
        )
        for event in (transcript.change, ending.then):
            event(None, None, None, js=SCROLL_TRANSCRIPT, api_visibility="private")
        transcript.select(handlers.seek, None, video, **AT_ONCE)
    return page


def _chooser(bench: Bench) -> gr.Dropdown:
    choices = [(f"{clip.name}: {clip.sample.goal if clip.sample else ''}", clip.name) for clip in bench.demos.clips]
    first = choices[0][1] if choices else None
    return gr.Dropdown(choices, value=first, label="Bundled video", interactive=True, elem_id="chosen")


def _transcript() -> gr.Dataframe:
    return gr.Dataframe(
        headers=HEADERS,
        datatype="str",
        type="array",
        label="Transcript; click a row to go there",
        interactive=False,
        wrap=True,
        max_height=330,
        column_widths=WIDTHS,
        elem_id="transcript",
    )


def _states() -> gr.Dataframe:
    return gr.Dataframe(
        headers=STATE_HEADERS,
        datatype="str",
        type="array",
        label="States of the steps",
        interactive=False,
        wrap=True,
        elem_id="states",
    )

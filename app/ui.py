"""The page's layout and its wiring; what happens is in ``app.handlers``.

Texts of the model, of dialogues and of file names are shown in text boxes and in the player only, never as markup.
"""

from functools import partial
from typing import Any

import gradio as gr

from app import handlers, streaming
from app.batch.batches import Batches
from app.batch.tab import make_batch_tab
from app.desk.answers import answer
from app.desk.desk import Desk
from app.desk.tab import make_desk_tab
from app.handlers import Bench
from app.player.player import make_player
from app.views import Buttons, ClipView, RunView, Thresholds
from app.wiring import AT_ONCE, LINE, MODEL

INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."
STEPS_HINT = "S1: attach the wheel\nS2: put on the roof"
PREVIEW = """(typed) => {{
    const value = Number.isFinite(typed) ? Math.min(1, Math.max(0, typed)) : null;
    const detail = {{name: '{name}', value}};
    if (value !== null) document.dispatchEvent(new CustomEvent('stepscope:threshold', {{detail}}));
    return value;
}}"""
"""Tells the player that a slider moves; the server hears of it from the player, once the slider is let go."""
STALE = "() => { document.dispatchEvent(new CustomEvent('stepscope:stale')); }"
"""Tells the player that the task is no longer the one of the run that it shows."""


def build_page(bench: Bench, batches: Batches, desk: Desk) -> gr.Blocks:
    """Build the page around a model, the videos, the batch runs and the reviews; ``launch`` takes theme and style."""

    def review(asked: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        return answer(desk, asked, request=request)

    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        clip, live = gr.State(None), gr.State(None)
        gr.Markdown(INTRODUCTION, elem_id="title")
        with gr.Tabs(elem_id="rooms") as rooms:
            with gr.Tab("Player", id="player") as player_tab, gr.Row():
                with gr.Column(scale=3, min_width=300):
                    chosen = _chooser(bench)
                    upload = gr.File(label="or upload a video", height=120, elem_id="upload")
                    with gr.Row():
                        run_button = gr.Button("Run", variant="primary", min_width=100, elem_id="run")
                        stop_button = gr.Button(
                            "Stop", variant="stop", min_width=100, interactive=False, elem_id="stop"
                        )
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
                with gr.Column(scale=11, min_width=640):
                    status = gr.Textbox(**LINE, elem_id="status")
                    progress = gr.HTML(elem_id="progress", padding=False)
                    with gr.Column(elem_id="stage"):
                        video = gr.Video(show_label=False, interactive=False, buttons=[], elem_id="video")
                        player = make_player(video_id="video", elem_id="player", review=review)
                    scores = gr.HTML(elem_id="scores", padding=False)
            batch_tab = gr.Tab("Batch", id="batch")
            desk_tab = gr.Tab("Reviews", id="reviews")

        clip_view = ClipView(
            clip=clip, video=video, chosen=chosen, upload=upload, goal=goal, steps=steps, user_turns=user_turns
        )
        run_view = RunView(status=status, progress=progress, player=player, scores=scores)
        buttons = Buttons(live=live, run=run_button, stop=stop_button)
        thresholds = Thresholds(speak=speak, update=update)
        everything = [*clip_view, *run_view, *buttons]

        def judge_against(live: Any, event: gr.EventData, request: gr.Request) -> Any:
            return streaming.judge_against(bench, desk, live, event, request)

        player.against(judge_against, live, list(run_view), **AT_ONCE)

        def open_page(live: Any, chosen: Any, request: gr.Request) -> Any:
            return handlers.open_page(bench, live, chosen, dict(request.query_params))

        let_go = player.thresholds(handlers.take_thresholds, None, list(thresholds), **AT_ONCE)
        again = let_go.then(
            partial(streaming.rerun, bench), [live, *thresholds], list(run_view), **MODEL, show_progress="hidden"
        )
        opening = page.load(open_page, [live, chosen], [*everything, *thresholds], **AT_ONCE)
        clicking = run_button.click(handlers.begin, None, [*run_view, *buttons], cancels=[again], **AT_ONCE)
        streams = [
            begun.then(
                partial(streaming.stream, bench),
                [live, clip, goal, steps, user_turns, *thresholds],
                list(run_view),
                **MODEL,
                show_progress="minimal",
                show_progress_on=progress,
            )
            for begun in (opening, clicking)
        ]
        for running in streams:
            running.then(handlers.end, live, list(buttons), **AT_ONCE)
        ends: dict[str, Any] = {"cancels": [*streams, again], **AT_ONCE}
        stop_button.click(partial(handlers.stop, bench), live, [*run_view, *buttons], **ends)
        chosen.select(partial(handlers.choose_demo, bench), [live, chosen], everything, **ends)
        show_upload = partial(handlers.accept_upload, bench)
        gr.on([upload.upload, upload.clear], show_upload, [live, clip, upload], everything, **ends)
        shared: dict[str, Any] = {"live": live, "player": [*everything, *thresholds], "ends": ends, "rooms": rooms}
        with batch_tab:
            make_batch_tab(bench, batches, **shared, here=batch_tab, elsewhere=[player_tab, desk_tab])
        with desk_tab:
            make_desk_tab(bench, batches, desk, **shared, here=desk_tab)
        for name, slider in thresholds._asdict().items():
            slider.input(None, [slider], [slider], js=PREVIEW.format(name=name), api_visibility="private")
        for box in (goal, steps, user_turns):
            box.input(None, None, None, js=STALE, api_visibility="private")
    return page


def _chooser(bench: Bench) -> gr.Dropdown:
    choices = [clip.name for clip in bench.demos.clips]
    first = choices[0] if choices else None
    return gr.Dropdown(choices, value=first, label="Bundled video", interactive=True, elem_id="chosen")

"""The page's layout and its wiring; what happens is in ``app.player.handlers``.

Texts of the model, of dialogues and of file names are shown in text boxes and in the player only, never as markup.
"""

from functools import partial
from typing import Any

import gradio as gr

from app.batch import saved_runs as saved
from app.batch.context import BatchContext
from app.batch.tab import make_batch_tab
from app.formatting import shorten_ids
from app.player import handlers, reruns, streaming, uploads
from app.player.component import make_player
from app.player.context import Bench
from app.player.downloads import SAVE, export_run, make_download
from app.player.inspection import inspect_run
from app.player.review_context import ReviewContext
from app.player.views import Buttons, ClipView, RunView, Thresholds
from app.review_tab.api import answer
from app.review_tab.tab import make_review_tab
from app.widgets import AT_ONCE, MODEL, MOVE, THRESHOLD, make_line

INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."
STEPS_HINT = "S1: attach the wheel\nS2: put on the roof"
FOLLOW = "() => document.querySelector('#player .ss').thresholds()"
"""Sets both sliders to the thresholds that the player shows."""
INSPECTED = "(text) => { document.dispatchEvent(new CustomEvent('stepscope:inspection', {detail: text})); }"
"""Gives the player the inspection of a frame."""
STALE = "() => { document.dispatchEvent(new CustomEvent('stepscope:stale')); }"
"""Lets the player compare the boxes of the task with the task of the run that it shows."""


def build_page(bench: Bench, batches: BatchContext, reviews: ReviewContext) -> gr.Blocks:
    """Build the page around a model, the videos, the batch runs and the reviews; ``launch`` takes theme and style."""

    def review(asked: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        return answer(reviews, asked, request=request)

    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        clip, live, accepted, checked = (gr.State(None) for _ in range(4))
        gr.Markdown(INTRODUCTION, elem_id="title")
        with gr.Tabs(elem_id="rooms") as rooms:
            with gr.Tab("Player", id="player") as player_tab, gr.Row():
                with gr.Column(scale=3, min_width=200, elem_classes="setup"):
                    chosen = _chooser(bench)
                    upload = gr.File(label="or upload a video", height=120, elem_id="upload")
                    refused = make_line("upload_problem")
                    with gr.Accordion("Reference of the upload (optional)", open=False, elem_id="own_reference"):
                        reference = gr.File(
                            label="Manifest, DST or ProAssist",
                            height=130,
                            elem_id="reference",
                        )
                    with gr.Row():
                        run_button = gr.Button("Run", variant="primary", min_width=80, elem_id="run")
                        stop_button = gr.Button("Stop", variant="stop", min_width=80, interactive=False, elem_id="stop")
                    goal = gr.Textbox(label="Goal", placeholder="build the toy truck", elem_id="goal")
                    steps = gr.Textbox(label="Steps, one a line", placeholder=STEPS_HINT, lines=4, elem_id="steps")
                    user_turns = gr.Textbox(
                        label="User turns, one a line (optional)",
                        placeholder="12.5: What is next?  or  1:30 What is next?",
                        lines=2,
                        elem_id="user_turns",
                    )
                    speak = gr.Slider(label="Speak threshold", elem_id="speak_threshold", **THRESHOLD)
                    update = gr.Slider(label="Update threshold", elem_id="update_threshold", **THRESHOLD)
                with gr.Column(scale=11, min_width=640, elem_classes="work"):
                    status = make_line("status")
                    progress = gr.HTML(elem_id="progress", padding=False)
                    with gr.Column(elem_id="stage"):
                        video = gr.Video(show_label=False, interactive=False, buttons=[], elem_id="video")
                        player = make_player(video_id="video", elem_id="player", streams=bench.streams, review=review)
                    scores = gr.HTML(elem_id="scores", padding=False)
            batch_tab = gr.Tab("Batch", id="batch")
            review_tab = gr.Tab("Reviews", id="reviews")

        clip_view = ClipView(
            clip=clip, video=video, chosen=chosen, upload=upload, goal=goal, steps=steps, user_turns=user_turns
        )
        run_view = RunView(status=status, progress=progress, player=player, scores=scores)
        buttons = Buttons(live=live, run=run_button, stop=stop_button)
        thresholds = Thresholds(speak=speak, update=update)
        everything = [*clip_view, *run_view, *buttons]

        def judge_against(live: Any, event: gr.EventData, request: gr.Request) -> Any:
            return streaming.judge_against(bench, reviews, live, event, request)

        player.against(judge_against, live, list(run_view), **AT_ONCE)

        def open_page(live: Any, chosen: Any, request: gr.Request) -> Any:
            link = dict(request.query_params)
            if "saved" in link:
                return saved.open_linked(bench, batches, live, chosen, link)
            return (*handlers.open_page(bench, live, chosen, link), gr.skip())

        download = make_download()
        player.export_run(export_run, live, download, **AT_ONCE).then(
            None, download, None, js=SAVE, api_visibility="private"
        )
        inspected = gr.Textbox(visible="hidden")

        def inspect(live: Any, event: gr.EventData) -> Any:
            return inspect_run(bench, live, event)

        player.inspect_frame(inspect, live, inspected, **MODEL, show_progress="hidden").then(
            None, inspected, None, js=INSPECTED, api_visibility="private"
        )

        def ask(live: Any, event: gr.EventData) -> Any:
            return reruns.ask(bench, live, event)

        opening = page.load(open_page, [live, chosen], [*everything, *thresholds, rooms], **AT_ONCE)
        clicking = run_button.click(
            handlers.begin, [live, clip, goal, steps, user_turns, *thresholds], [*run_view, *buttons], **AT_ONCE
        )

        def release(request: gr.Request) -> None:
            windows = page.state_holder
            left = windows[request.session_hash].get(live._id) if request.session_hash in windows else None
            if left is not None:
                bench.recordings.release(left)

        page.unload(release)
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
        asking = player.thresholds(ask, live, list(run_view), trigger_mode="multiple", **AT_ONCE)
        stop = partial(handlers.stop, bench)
        stopping = stop_button.click(handlers.halt, live, None, **AT_ONCE).then(
            stop, live, [*run_view, *buttons], cancels=streams, **AT_ONCE
        )
        again = [
            event.then(
                partial(reruns.rerun, bench),
                live,
                list(run_view),
                **MODEL,
                trigger_mode="always_last",
                show_progress="hidden",
            )
            for event in (asking, stopping)
        ]
        ends: dict[str, Any] = {"cancels": [*streams, *again], **AT_ONCE}
        player.shown(None, None, list(thresholds), js=FOLLOW, api_visibility="private")
        chosen.select(partial(handlers.choose_demo, bench), [live, chosen], everything, **ends)
        checking = partial(uploads.check_upload, bench)
        upload.upload(checking, [live, clip, upload], [accepted, status, upload, refused], **AT_ONCE)
        accepted.change(partial(uploads.show_upload, bench), [live, clip, accepted], everything, **ends)
        upload.clear(uploads.clear_box, [live, clip], status, **AT_ONCE)
        gr.on([chosen.select, accepted.change], lambda: (None, ""), None, [reference, refused], **AT_ONCE)
        given = [reference.upload, reference.clear]
        gr.on(given, uploads.check_reference, [live, clip, reference], [checked, status, refused], **AT_ONCE)
        checked.change(partial(uploads.show_reference, bench), [live, clip, checked], everything, **ends)
        shared: dict[str, Any] = {"live": live, "player": [*everything, *thresholds], "ends": ends, "rooms": rooms}
        with batch_tab:
            make_batch_tab(bench, batches, **shared, here=batch_tab, elsewhere=[player_tab, review_tab])
        with review_tab:
            make_review_tab(bench, batches, reviews, **shared, here=review_tab)
        moves = [event for slider in thresholds for event in (slider.input, slider.release)]
        gr.on(moves, None, list(thresholds), None, js=MOVE, api_visibility="private")
        for box in (goal, steps, user_turns):
            box.change(None, None, None, js=STALE, api_visibility="private")
    return page


def _chooser(bench: Bench) -> gr.Dropdown:
    choices = [(short, name) for name, short in shorten_ids(clip.name for clip in bench.demos.clips).items()]
    first = bench.demos.hardest
    return gr.Dropdown(
        choices, value=first.name if first else None, label="Bundled video", interactive=True, elem_id="chosen"
    )

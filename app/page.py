"""Layout of the page and wiring of its events; the handlers are in the packages of the tabs.

Texts of the model, of dialogues and of file names are only shown in text boxes and in the player, never as HTML.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from app.batch import saved_runs as saved
from app.batch.context import BatchContext
from app.batch.tab import make_batch_tab
from app.formatting import shorten_ids
from app.player import handlers, reruns, streaming, uploads
from app.player.context import AppContext
from app.player.display.component import make_player
from app.player.downloads import SAVE_JS, export_run, make_download
from app.player.inspection import inspect_run
from app.player.review_context import ReviewContext
from app.player.session.places import NO_RUN
from app.player.views import Buttons, ClipView, PlayerView, RunView, SliderThresholds
from app.review_tab.api import answer
from app.review_tab.tab import make_review_tab
from app.widgets import AT_ONCE, MODEL_QUEUE, PREVIEW_THRESHOLDS_JS, THRESHOLD_SLIDER, make_status_line, wire

INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."
STEPS_HINT = "S1: attach the wheel\nS2: put on the roof"
READ_THRESHOLDS_JS = "() => document.querySelector('#player .ss').thresholds()"
"""Sets both sliders to the thresholds of the player."""
SEND_INSPECTION_JS = "(text) => { document.dispatchEvent(new CustomEvent('stepscope:inspection', {detail: text})); }"
"""Passes the inspection of a frame to the player."""
CHECK_TASK_JS = "() => { document.dispatchEvent(new CustomEvent('stepscope:stale')); }"
"""Makes the player compare the task boxes with the task of the displayed run."""


@dataclass(frozen=True, kw_only=True)
class PlayerTab:
    """Components of the player tab, grouped by the views that update them."""

    clip: ClipView
    run: RunView
    buttons: Buttons
    thresholds: SliderThresholds
    tabs: Any
    """The tabs of the page."""
    reference: Any
    """File box of the upload's reference."""
    upload_problem: Any
    """Status line below the upload box."""
    accepted: Any
    """State: the latest accepted upload."""
    checked: Any
    """State: the latest accepted reference."""

    @property
    def view(self) -> PlayerView:
        """The components that handlers of videos and runs update."""
        return PlayerView(
            clip=self.clip, run=self.run, buttons=self.buttons, thresholds=self.thresholds, tabs=self.tabs
        )

    @property
    def run_inputs(self) -> list[Any]:
        """Inputs of handlers that start a run."""
        clip = self.clip
        return [self.buttons.live, clip.clip, clip.goal, clip.steps, clip.user_turns, *self.thresholds]


def build_page(context: AppContext, batches: BatchContext, reviews: ReviewContext) -> gr.Blocks:
    """Build the page for a model, videos, batch runs and reviews; ``launch`` takes the theme and the style sheets."""
    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        states = {name: gr.State(None) for name in ("clip", "live", "accepted", "checked")}
        gr.Markdown(INTRODUCTION, elem_id="title")
        with gr.Tabs(elem_id="rooms") as tabs:
            with gr.Tab("Player", id="player") as player_tab, gr.Row():
                tab = _make_player_tab(context, reviews, tabs, **states)
            batch_tab = gr.Tab("Batch", id="batch")
            review_tab = gr.Tab("Reviews", id="reviews")
        _wire_player(context, reviews, tab)
        ends = _wire_runs(context, batches, tab, page=page)
        _wire_videos(context, tab, ends)
        shared: dict[str, Any] = {"live": tab.buttons.live, "player": tab.view, "ends": ends}
        with batch_tab:
            elsewhere = (player_tab, review_tab)
            make_batch_tab(context, batches, **shared, sliders=tab.thresholds, here=batch_tab, elsewhere=elsewhere)
        with review_tab:
            make_review_tab(context, batches, reviews, **shared, here=review_tab)
        _wire_previews(tab)
    return page


def _make_player_tab(
    context: AppContext,
    reviews: ReviewContext,
    tabs: gr.Tabs,
    *,
    clip: gr.State,
    live: gr.State,
    accepted: gr.State,
    checked: gr.State,
) -> PlayerTab:
    with gr.Column(scale=3, min_width=200, elem_classes="setup"):
        chosen = _make_chooser(context)
        upload = gr.File(label="or upload a video", height=120, elem_id="upload")
        upload_problem = make_status_line("upload_problem")
        with gr.Accordion("Reference of the upload (optional)", open=False, elem_id="own_reference"):
            reference = gr.File(label="Manifest, DST or ProAssist", height=130, elem_id="reference")
        with gr.Row():
            run = gr.Button("Run", variant="primary", min_width=80, elem_id="run")
            stop = gr.Button("Stop", variant="stop", min_width=80, interactive=False, elem_id="stop")
        goal = gr.Textbox(label="Goal", placeholder="build the toy truck", elem_id="goal")
        steps = gr.Textbox(label="Steps, one per line", placeholder=STEPS_HINT, lines=4, elem_id="steps")
        user_turns = gr.Textbox(
            label="User turns, one per line (optional)",
            placeholder="12.5: What is next?  or  1:30 What is next?",
            lines=2,
            elem_id="user_turns",
        )
        config = context.config
        speak = gr.Slider(
            value=config.speak_threshold, label="Speak threshold", elem_id="speak_threshold", **THRESHOLD_SLIDER
        )
        update = gr.Slider(
            value=config.update_threshold, label="Update threshold", elem_id="update_threshold", **THRESHOLD_SLIDER
        )
    with gr.Column(scale=11, min_width=640, elem_classes="work"):
        video, run_view = _make_stage(context, reviews)
    return PlayerTab(
        clip=ClipView(
            clip=clip, video=video, chosen=chosen, upload=upload, goal=goal, steps=steps, user_turns=user_turns
        ),
        run=run_view,
        buttons=Buttons(live=live, run=run, stop=stop),
        thresholds=SliderThresholds(speak=speak, update=update),
        tabs=tabs,
        reference=reference,
        upload_problem=upload_problem,
        accepted=accepted,
        checked=checked,
    )


def _make_chooser(context: AppContext) -> gr.Dropdown:
    choices = [(short, name) for name, short in shorten_ids(clip.name for clip in context.bundled_videos.clips).items()]
    first = context.bundled_videos.hardest
    return gr.Dropdown(
        choices, value=first.name if first else None, label="Bundled video", interactive=True, elem_id="chosen"
    )


def _make_stage(context: AppContext, reviews: ReviewContext) -> tuple[Any, RunView]:
    """Lay out the video and its run; return the ``gr.Video`` and the components of the run."""

    def review(request_data: dict[str, Any], request: gr.Request) -> dict[str, Any]:
        return answer(reviews, request_data, request=request)

    status = make_status_line("status")
    progress = gr.HTML(elem_id="progress", padding=False)
    with gr.Column(elem_id="stage"):
        video = gr.Video(show_label=False, interactive=False, buttons=[], elem_id="video")
        player = make_player(video_id="video", elem_id="player", streams=context.streams, review=review)
    scores = gr.HTML(elem_id="scores", padding=False)
    return video, RunView(status=status, progress=progress, player=player, scores=scores)


def _wire_player(context: AppContext, reviews: ReviewContext, tab: PlayerTab) -> None:
    """Wire the player's events for references, downloads and inspections."""
    live, player = tab.buttons.live, tab.run.player

    def judge_against(live: Any, event: gr.EventData, request: gr.Request) -> Any:
        return streaming.judge_against(context, reviews, live, event, request)

    def inspect(live: Any, event: gr.EventData) -> Any:
        return inspect_run(context, live, event)

    player.against(judge_against, live, list(tab.run), **AT_ONCE)
    download = make_download()
    player.export_run(export_run, live, download, **AT_ONCE).then(
        None, download, None, js=SAVE_JS, api_visibility="private"
    )
    inspected = gr.Textbox(visible="hidden")
    player.inspect_frame(inspect, live, inspected, **MODEL_QUEUE, show_progress="hidden").then(
        None, inspected, None, js=SEND_INSPECTION_JS, api_visibility="private"
    )


def _wire_runs(context: AppContext, batches: BatchContext, tab: PlayerTab, *, page: gr.Blocks) -> dict[str, Any]:
    """Wire the start, stop and re-run of runs; return the options of events that cancel the current run."""
    live, run_view = tab.buttons.live, list(tab.run)

    def open_page(live: Any, chosen: Any, request: gr.Request) -> Any:
        link = dict(request.query_params)
        if "saved" in link:
            return saved.open_linked(context, batches, live, chosen, link)
        if link.get("run") == NO_RUN:
            return saved.open_linked_reference(context, live, chosen, link)
        return handlers.open_page(context, live, chosen, link)

    def request_thresholds(live: Any, event: gr.EventData) -> Any:
        return reruns.request_thresholds(context, live, event)

    def release_recording(request: gr.Request) -> None:
        windows = page.state_holder
        closed = windows[request.session_hash].get(live._id) if request.session_hash in windows else None
        if closed is not None:
            context.recordings.release(closed)

    opened = wire(page.load, open_page, [live, tab.clip.chosen], tab.view, **AT_ONCE)
    started = wire(tab.buttons.run.click, handlers.queue_run, tab.run_inputs, tab.view, **AT_ONCE)
    page.unload(release_recording)
    streams = [
        event.then(
            partial(streaming.stream_run, context),
            tab.run_inputs,
            run_view,
            **MODEL_QUEUE,
            show_progress="minimal",
            show_progress_on=tab.run.progress,
        )
        for event in (opened, started)
    ]
    for stream in streams:
        wire(stream.then, handlers.finish_run, live, tab.buttons, **AT_ONCE)
    requested = tab.run.player.thresholds(request_thresholds, live, run_view, trigger_mode="multiple", **AT_ONCE)
    stopping = tab.buttons.stop.click(handlers.stop_run, live, None, **AT_ONCE)
    stopped = wire(stopping.then, partial(handlers.show_stopped, context), live, tab.view, cancels=streams, **AT_ONCE)
    rerun = partial(reruns.rerun, context)
    options = {**MODEL_QUEUE, "trigger_mode": "always_last", "show_progress": "hidden"}
    again = [event.then(rerun, live, run_view, **options) for event in (requested, stopped)]
    return {"cancels": [*streams, *again], **AT_ONCE}


def _wire_videos(context: AppContext, tab: PlayerTab, ends: dict[str, Any]) -> None:
    """Wire the choice and the upload of videos and references."""
    live, clip, chosen, upload = tab.buttons.live, tab.clip.clip, tab.clip.chosen, tab.clip.upload
    status, problem = tab.run.status, tab.upload_problem
    tab.run.player.shown(None, None, list(tab.thresholds), js=READ_THRESHOLDS_JS, api_visibility="private")
    wire(chosen.select, partial(handlers.choose_bundled, context), [live, chosen], tab.view, **ends)
    check_upload = partial(uploads.check_upload, context)
    upload.upload(check_upload, [live, clip, upload], [tab.accepted, status, upload, problem], **AT_ONCE)
    show_upload, show_reference = partial(uploads.show_upload, context), partial(uploads.show_reference, context)
    wire(tab.accepted.change, show_upload, [live, clip, tab.accepted], tab.view, **ends)
    upload.clear(uploads.clear_box, [live, clip], status, **AT_ONCE)
    gr.on([chosen.select, tab.accepted.change], lambda: (None, ""), None, [tab.reference, problem], **AT_ONCE)
    gr.on(
        [tab.reference.upload, tab.reference.clear],
        uploads.check_reference,
        [live, clip, tab.reference],
        [tab.checked, status, problem],
        **AT_ONCE,
    )
    wire(tab.checked.change, show_reference, [live, clip, tab.checked], tab.view, **ends)


def _wire_previews(tab: PlayerTab) -> None:
    """Wire the browser-side previews: thresholds while a slider moves, and the check for a changed task."""
    moves = [event for slider in tab.thresholds for event in (slider.input, slider.release)]
    gr.on(moves, None, list(tab.thresholds), None, js=PREVIEW_THRESHOLDS_JS, api_visibility="private")
    for box in (tab.clip.goal, tab.clip.steps, tab.clip.user_turns):
        box.change(None, None, None, js=CHECK_TASK_JS, api_visibility="private")

"""The player's tab: its layout, and the wiring of its events; the modules beside it have the handlers."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls import widgets
from stepscope.app.controls.cancellable import WorkButtons
from stepscope.app.controls.gradio_private import read_state
from stepscope.app.controls.run_inputs import (
    GOAL_HINT,
    STEPS_HINT,
    ThresholdSliders,
    make_context_choice,
    make_threshold_sliders,
)
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player import handlers, opening, reruns, streaming
from stepscope.app.player.ask import AskPanel, make_ask_panel
from stepscope.app.player.component import make_player, patch_player
from stepscope.app.player.downloads import export_figure, export_run
from stepscope.app.player.explaining import make_explain_panel
from stepscope.app.player.inspection import explain_frame, inspect_run
from stepscope.app.player.proposals import propose_steps
from stepscope.app.player.questions import wire_question
from stepscope.app.player.reruns import RequestView
from stepscope.app.player.review import answer
from stepscope.app.player.views import Buttons, ClipView, PlayerView, RunView, SliderThresholds
from stepscope.app.player.what_if import queue_branch
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.focus import list_choices, name_model
from stepscope.engine.model.hub.prompt import HubPrompt

SLIDERS = ThresholdSliders("speak_threshold", "update_threshold", "theta")
READ_THRESHOLDS_JS = "() => document.querySelector('#player .ss').thresholds()"
"""Sets both sliders to the thresholds of the player."""
_TASK_PLACE_JS = (
    "['video', 'upload', 'split', 'saved'].map((key) => new URLSearchParams(location.search).get(key)).join()"
)
KEEP_TASK_JS = f"""(...texts) => {{
    if (!document.querySelector('#stop').disabled) return;
    try {{ sessionStorage['stepscope:task'] = JSON.stringify([{_TASK_PLACE_JS}, texts]); }} catch {{}}
}}"""
"""Keeps the typed task for a reload of this window; while a run streams, a reload starts it again with its own."""
FORGET_TASK_JS = "() => { try { delete sessionStorage['stepscope:task']; } catch {} }"
RESTORE_TASK_JS = f"""(...texts) => {{
    try {{
        const [place, typed] = JSON.parse(sessionStorage['stepscope:task']);
        const isReload = performance.getEntriesByType('navigation')[0].type === 'reload';
        return isReload && place === {_TASK_PLACE_JS} ? typed : texts;
    }} catch {{ return texts; }}
}}"""
"""Returns the typed task after a reload if it belongs to the video of the address."""


@dataclass(frozen=True, kw_only=True)
class PlayerTab:
    """Components of the player tab."""

    view: PlayerView
    uploads: Any
    asking: AskPanel | None
    """The panel *Ask*; None if the page has none."""
    propose: Any
    calibration: WorkButtons

    @property
    def task(self) -> list[Any]:
        """The boxes of the task."""
        return [self.view.clip.goal, self.view.clip.steps, self.view.clip.user_turns]

    @property
    def run_inputs(self) -> list[Any]:
        """Inputs of handlers that start a run."""
        return [self.view.buttons.live, self.view.clip.clip, *self.task, *self.view.thresholds, self.view.strategy]


def make_player_tab(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    tabs: gr.Tabs,
    *,
    clip: gr.State,
    live: gr.State,
) -> PlayerTab:
    """Lay out the tab."""
    with gr.Row(elem_classes="top-row"):
        widgets.make_fold("form", "☰ Video, task, settings")
        run = gr.Button("Run", variant="primary", scale=0, min_width=80, elem_id="run")
        stop = gr.Button("Stop", variant="stop", scale=0, min_width=80, interactive=False, elem_id="stop")
        gr.HTML(html_template='<p class="intro"></p>', apply_default_css=False, elem_id="intro", padding=False)
        status = widgets.make_status_line("status")
        if context.remote is None:
            widgets.make_fold("ask", "Ask", is_kept=False)  # its letters would be no keys in the next window
    with gr.Row():
        with gr.Column(scale=3, min_width=200, elem_classes="setup", elem_id="form"):
            upload = gr.File(label="Upload a video", height=120, elem_id="upload")
            uploads = gr.Column(min_width=180)
            goal = gr.Textbox(label="Goal", placeholder=GOAL_HINT, elem_id="goal")
            steps = gr.Textbox(label="Steps, one per line", placeholder=STEPS_HINT, lines=4, elem_id="steps")
            can_propose = context.remote is None and isinstance(context.checkpoint.prompt, HubPrompt)
            propose = gr.Button("Propose steps", size="sm", visible=can_propose, elem_id="propose")
            user_turns = gr.Textbox(
                label="User turns, one per line (optional)",
                placeholder="for example:\n12.5: What is next?  or  1:30 What is next?",
                lines=2,
                elem_id="user_turns",
            )
            sliders = make_threshold_sliders(context.config, SLIDERS, is_previewed=True)
            is_untrained = context.is_untrained and context.remote is None
            with gr.Row(visible=is_untrained):
                calibrate = gr.Button("Calibrate on labelled videos", size="sm", scale=3, elem_id="calibrate")
                cancel = gr.Button(
                    "Cancel", variant="stop", size="sm", min_width=80, interactive=False, elem_id="cancel_calibration"
                )
            calibration = gr.HTML(elem_id="calibration", padding=False)
            strategy = make_context_choice(context.config, elem_id="context")
        with gr.Column(scale=11, min_width=640, elem_classes="work", elem_id="study"):
            video, run_view = _make_stage(context, batches, reviews, status, live)
            asking = None  # on ZeroGPU, as the model keeps nothing between two calls
            if context.remote is None:
                asking = make_ask_panel(context, live=live, video=video, player=run_view.player, user_turns=user_turns)
    view = PlayerView(
        clip=ClipView(
            clip=clip,
            video=video,
            upload=upload,
            goal=goal,
            steps=steps,
            user_turns=user_turns,
        ),
        run=run_view,
        buttons=Buttons(live=live, run=run, stop=stop, stream=None, rerun=None),
        thresholds=SliderThresholds(speak=sliders.speak, update=sliders.update),
        tabs=tabs,
        strategy=strategy,
    )
    calibrating = WorkButtons(start=calibrate, cancel=cancel, progress=calibration)
    return PlayerTab(view=view, uploads=uploads, asking=asking, propose=propose, calibration=calibrating)


def _make_stage(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, status: gr.HTML, live: gr.State
) -> tuple[Any, RunView]:
    """Lay out the video and its run; return the ``gr.Video`` and the components of the run."""
    with gr.Column(elem_id="shown_run"):
        progress = gr.HTML(elem_id="progress", padding=False)
        with gr.Column(elem_id="stage"):
            video = gr.Video(show_label=False, interactive=False, buttons=[], elem_id="video")
            player = make_player(
                video_id="video",
                elem_id="player",
                streams=context.streams,
                review=partial(answer, reviews),
                hear=context.copies.measure_sound,
                config=context.config,
                model_digest=context.checkpoint.digest,
                is_blind=reviews.is_blind,
                model=name_model(context.checkpoint.digest, context.checkpoint.name),
            )
        scores = gr.HTML(elem_id="scores", padding=False)
        view = RunView(status=status, progress=progress, player=player, scores=scores)
        if context.remote is None:
            make_explain_panel(context, batches, live, view)
    return video, view


def wire_player(context: AppContext, batches: BatchContext, reviews: ReviewContext, tab: PlayerTab) -> None:
    """Wire the requests of the player's script."""
    live, player = tab.view.buttons.live, tab.view.run.player
    each: dict[str, Any] = {"trigger_mode": "multiple"}  # else Gradio leaves out an event while another one runs
    judge = partial(streaming.judge_against, context, reviews)
    widgets.wire(player.against, judge, live, tab.view.run, **widgets.REVIEW_QUEUE, **each)
    widgets.wire_download(player.export_run, export_run, live, **each)
    draw = partial(export_figure, context, reviews)
    widgets.wire_download(player.export_figure, draw, live, **widgets.FIGURE_QUEUE, **each)

    def inspect(live: Any, event: gr.EventData) -> Any:
        return patch_player(inspection=inspect_run(context, live, event))

    def explain(live: Any, event: gr.EventData) -> Any:
        return patch_player(evidence=explain_frame(context, batches, live, event))

    def offer(event: gr.EventData) -> Any:
        part, split, run = (str(widgets.read_event(event, name) or "") for name in ("part", "split", "run"))
        return patch_player(choices={"part": part, "found": list_choices(batches, part, split=split, run=run)})

    widgets.wire(player.list_choices, offer, None, player, **widgets.AT_ONCE, **each)
    options = {**widgets.MODEL_QUEUE, "show_progress": "hidden", **each}
    widgets.wire(player.inspect_frame, inspect, live, player, **options)
    widgets.wire(player.explain_frame, explain, live, player, **options)


def wire_runs(context: AppContext, batches: BatchContext, tab: PlayerTab, *, page: gr.Blocks) -> dict[str, Any]:
    """Wire the start, stop and re-run of runs; return the options of events that cancel the current run."""
    live, run_view, buttons = tab.view.buttons.live, list(tab.view.run), tab.view.buttons

    def open_page(live: Any, request: gr.Request) -> Any:
        view = opening.open_link(context, batches, live, dict(request.query_params))
        return view._replace(tabs=gr.skip())  # that of the address is opened

    def release_recording(request: gr.Request) -> None:
        closed = read_state(page, live, request.session_hash)
        if closed is not None:
            context.recordings.release(closed)

    queues_run = {"is_followed": lambda view: view.buttons.stream, **widgets.AT_ONCE}
    opened = widgets.wire_first(page.load, open_page, live, tab.view, **queues_run)
    for after in (opened.success, opened.failure):
        after(None, tab.task, tab.task, js=RESTORE_TASK_JS, api_visibility="private")
    tab.view.run.player.open_focus(None, None, None, js=FORGET_TASK_JS, api_visibility="private")
    queue = partial(handlers.queue_run, context)
    queued = [opened, widgets.wire_first(buttons.run.click, queue, tab.run_inputs, tab.view, **queues_run)]
    branch, player = partial(queue_branch, context), tab.view.run.player
    queued += [widgets.wire_first(player.what_if, branch, live, tab.view, trigger_mode="multiple", **queues_run)]
    page.unload(release_recording)
    clip = tab.view.clip
    proposed = (clip.steps, tab.view.run.status)
    propose = partial(propose_steps, context)
    proposing = widgets.wire(tab.propose.click, propose, [clip.clip, clip.goal], proposed, **widgets.MODEL_QUEUE)
    if tab.asking is not None:
        question = tab.asking.question
        queued += [wire_question(tab.asking.in_run.click, context, question=question, live=live, view=tab.view)]
    options: dict[str, Any] = {
        **widgets.MODEL_QUEUE,
        "trigger_mode": "multiple",
        "show_progress": "minimal",
        "show_progress_on": tab.view.run.progress,
    }
    stream = partial(streaming.stream_run, context)
    streams = [event.success(stream, tab.run_inputs, run_view, **options) for event in queued]
    for event in streams:
        widgets.wire(event.then, handlers.finish_run, live, buttons, **widgets.AT_ONCE)
    view = RequestView(run=tab.view.run, rerun=None)
    request = partial(reruns.request_thresholds, context)
    options = {"is_followed": lambda view: view.rerun, "trigger_mode": "multiple", **widgets.AT_ONCE}
    requested = widgets.wire_first(tab.view.run.player.thresholds, request, live, view, **options)
    stopping = buttons.stop.click(handlers.stop_run, live, None, **widgets.AT_ONCE)
    show_stopped = partial(handlers.show_stopped, context)
    options = {"is_followed": lambda view: view.buttons.rerun, "cancels": streams, **widgets.AT_ONCE}
    stopped = widgets.wire_first(stopping.then, show_stopped, live, tab.view, **options)
    options = {**widgets.MODEL_QUEUE, "trigger_mode": "always_last", "show_progress": "hidden"}
    rerun = partial(reruns.rerun, context)
    again = [event.success(rerun, live, run_view, **options) for event in (requested, stopped)]
    return {"cancels": [*streams, *again, proposing], **widgets.AT_ONCE}


def wire_previews(tab: PlayerTab) -> None:
    """Wire the boxes and sliders whose moves the player's script follows."""
    moves = [event for slider in tab.view.thresholds for event in (slider.input, slider.release)]
    gr.on(moves, None, list(tab.view.thresholds), None, js=widgets.PREVIEW_THRESHOLDS_JS, api_visibility="private")
    gr.on([box.input for box in tab.task], None, tab.task, None, js=KEEP_TASK_JS, api_visibility="private")

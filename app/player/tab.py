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
from stepscope.app.player.ask import make_ask_panel
from stepscope.app.player.commands import ChoicesRequest, FrameRequest, wire_command
from stepscope.app.player.component import make_player, patch_player
from stepscope.app.player.downloads import export_figure, export_run
from stepscope.app.player.explaining import make_explain_panel
from stepscope.app.player.inspection import explain_frame, inspect_run
from stepscope.app.player.proposals import can_propose, propose_steps
from stepscope.app.player.questions import ask_in_run
from stepscope.app.player.review import answer
from stepscope.app.player.views import PlayerComponents, PlayerView
from stepscope.app.player.what_if import queue_branch
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.focus import list_choices, name_model
from stepscope.app.window.live_run import Window

SLIDERS = ThresholdSliders("speak_threshold", "update_threshold", "theta")


@dataclass(frozen=True, kw_only=True)
class PlayerTab:
    """Components of the player tab."""

    view: PlayerComponents
    uploads: Any
    question: Any
    """The box of the panel *Ask*; None if the page has none."""
    propose: Any
    calibration: WorkButtons

    @property
    def run_inputs(self) -> list[Any]:
        """Inputs of handlers that start a run."""
        return [self.view.window, *self.view.task, *self.view.sliders, self.view.strategy]


def make_player_tab(
    context: AppContext,
    batches: BatchContext,
    reviews: ReviewContext,
    tabs: gr.Tabs,
) -> PlayerTab:
    """Lay out the tab."""
    window = gr.State(Window())
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
            propose = gr.Button("Propose steps", size="sm", visible=can_propose(context), elem_id="propose")
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
            video, player, shown = _make_stage(context, batches, reviews, status, window)
            question = None  # on ZeroGPU, as the model keeps nothing between two calls
            if context.remote is None:
                question = make_ask_panel(context, shown=window, video=video, player=player, user_turns=user_turns)
    view = PlayerComponents(
        window=window,
        video=video,
        upload=upload,
        goal=goal,
        steps=steps,
        user_turns=user_turns,
        **shown,
        run=run,
        stop=stop,
        speak=sliders.speak,
        update=sliders.update,
        strategy=strategy,
        tabs=tabs,
    )
    calibrating = WorkButtons(start=calibrate, cancel=cancel, progress=calibration)
    return PlayerTab(view=view, uploads=uploads, question=question, propose=propose, calibration=calibrating)


def _make_stage(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, status: gr.HTML, window: gr.State
) -> tuple[Any, Any, dict[str, Any]]:
    """Lay out the video and its run; return the ``gr.Video``, the player, and the components of the run by name."""
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
        shown = {"status": status, "progress": progress, "player": player, "scores": scores}
        if context.remote is None:
            make_explain_panel(context, batches, window, {**shown})
    return video, player, shown


def wire_player(context: AppContext, batches: BatchContext, reviews: ReviewContext, tab: PlayerTab) -> None:
    """Wire the commands of the player's script that need no run of the model."""
    window, player = tab.view.window, tab.view.player
    each = {"trigger_mode": "multiple"}  # else Gradio leaves out an event while another one runs
    of_frame = {**widgets.MODEL_QUEUE, "show_progress": "hidden", **each}

    def inspect(window: Window, asked: FrameRequest) -> Any:
        return patch_player(inspection=inspect_run(context, window, asked))

    def explain(window: Window, asked: FrameRequest) -> Any:
        for found in explain_frame(context, batches, window, asked):
            yield patch_player(evidence=found)

    def offer(asked: ChoicesRequest) -> Any:
        found = list_choices(batches, asked.part, split=asked.split, run=asked.run)
        return patch_player(choices={"part": asked.part, "found": found})

    judge = partial(streaming.judge_against, context, reviews)
    draw = partial(export_figure, context, reviews)
    for name, handler, inputs, outputs, options in (
        ("against", judge, window, tab.view.of_run, widgets.REVIEW_QUEUE | each),
        ("inspect_frame", inspect, window, player, of_frame),
        ("explain_frame", explain, window, player, of_frame),
        ("list_choices", offer, None, player, widgets.AT_ONCE | each),
    ):
        wire_command(player, name, handler, inputs, outputs, **options)
    for name, send, queue in (("export_run", export_run, {}), ("export_figure", draw, widgets.FIGURE_QUEUE)):
        file = gr.DownloadButton(visible="hidden")
        widgets.save_after(wire_command(player, name, send, window, file, **queue, **each), file)


def wire_runs(context: AppContext, batches: BatchContext, tab: PlayerTab, *, page: gr.Blocks) -> dict[str, Any]:
    """Wire the start, stop and re-run of runs; return the options of events that cancel the current run."""
    view, window, player = vars(tab.view), tab.view.window, tab.view.player

    def open_page(request: gr.Request) -> Any:
        opened = opening.open_link(context, batches, dict(request.query_params))
        return PlayerView(opened, tabs=gr.skip())  # that of the address is opened

    def release_recording(request: gr.Request) -> None:
        closed = read_state(page, window, request.session_hash)
        if closed is not None and closed.live is not None:
            context.recordings.release(closed.live)

    page.unload(release_recording)
    stream, rerun = gr.State(0), gr.State(0)  # tickets: only handlers that have work for the model change them
    starting, each = {**view, "stream": stream}, {"trigger_mode": "multiple"}
    opened = widgets.wire(page.load, open_page, None, starting, **widgets.AT_ONCE)
    widgets.run_script(opened.then, "restoreTask", tab.view.task, tab.view.task)
    widgets.run_script(player.open_focus, "forgetTask")
    widgets.wire(view["run"].click, partial(handlers.queue_run, context), tab.run_inputs, starting, **widgets.AT_ONCE)
    wire_command(player, "what_if", partial(queue_branch, context), window, starting, **each)
    if tab.question is not None:
        asking = {**starting, "question": tab.question}
        wire_command(player, "ask_in_run", partial(ask_in_run, context), window, asking)
    options = {**widgets.MODEL_QUEUE, **each, "show_progress": "minimal", "show_progress_on": view["progress"]}
    run = partial(streaming.stream_run, context)
    streaming_view = {**tab.view.of_run, "steps": view["steps"]}  # which the model may propose
    streamed = widgets.wire(stream.change, run, tab.run_inputs, streaming_view, **options)
    widgets.wire(streamed.then, handlers.finish_run, window, tab.view.choose("run", "stop"), **widgets.AT_ONCE)
    request = partial(reruns.request_thresholds, context)
    wire_command(player, "thresholds", request, window, {**tab.view.of_run, "rerun": rerun}, **each)
    stopping = view["stop"].click(handlers.stop_run, window, None, **widgets.AT_ONCE)
    show_stopped, stopped = partial(handlers.show_stopped, context), {**view, "rerun": rerun}
    widgets.wire(stopping.then, show_stopped, window, stopped, cancels=streamed, **widgets.AT_ONCE)
    options = {**widgets.MODEL_QUEUE, "trigger_mode": "always_last", "show_progress": "hidden"}
    again = widgets.wire(rerun.change, partial(reruns.rerun, context), window, tab.view.of_run, **options)
    propose, inputs = partial(propose_steps, context), [window, view["goal"]]
    proposed = tab.view.choose("steps", "status")
    proposing = widgets.wire(tab.propose.click, propose, inputs, proposed, **widgets.MODEL_QUEUE)
    ends = {"cancels": [streamed, again, proposing], **widgets.AT_ONCE}
    wire_command(player, "open_focus", partial(opening.open_focus, context, batches), None, starting, **ends)
    return ends


def wire_previews(tab: PlayerTab) -> None:
    """Wire the boxes and sliders whose moves the player's script follows."""
    moves = [event for slider in tab.view.sliders for event in (slider.input, slider.release)]
    widgets.run_script(partial(gr.on, moves), "previewThresholds", tab.view.sliders)
    widgets.run_script(partial(gr.on, [box.input for box in tab.view.task]), "keepTask", tab.view.task)

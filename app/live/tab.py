"""Layout and wiring of the live tab."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.run_inputs import (
    GOAL_HINT,
    STEPS_HINT,
    ThresholdSliders,
    make_context_choice,
    make_threshold_sliders,
)
from stepscope.app.controls.widgets import (
    AT_ONCE,
    CHECK_QUEUE,
    LATEST,
    MODEL_QUEUE,
    MODULES,
    Updates,
    make_status_line,
    run_script,
    wire,
)
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.formatting import shorten_ids
from stepscope.app.live import handlers
from stepscope.app.live.handlers import FILE, URL, WEBCAM, SessionForm, render_explained
from stepscope.app.live.window import LiveWindows
from stepscope.app.player.commands import InPlayer
from stepscope.app.player.component import make_player
from stepscope.app.window.context import AppContext

STATIC: Final = Path(__file__).parent / "static"
CSS: Final = (STATIC / "monitor.css").read_text(encoding="utf-8")
HINT: Final = "Press Start: the lanes grow here while the session runs."

SLIDERS = ThresholdSliders("live_speak", "live_update", "live_theta")


def make_live_tab(context: AppContext, batches: BatchContext, in_player: InPlayer) -> None:
    """Lay out and wire the tab; recorded sessions are added to the runs and splits of ``batches``."""
    windows = LiveWindows(context.model_use)
    window = gr.State(None)
    with gr.Row():
        with gr.Column(scale=3, min_width=200, elem_classes="setup"):
            source = _make_source(context, can_connect=batches.takes_paths)
            with gr.Row():
                start = gr.Button("Start", variant="primary", min_width=80, elem_id="live_start")
                stop = gr.Button("Stop", variant="stop", min_width=80, interactive=False, elem_id="live_stop")
            warning = gr.Markdown(f"⚠ {context.model_warning}", visible=False, elem_id="live_warning")
            form = SessionForm(**source, **_make_task(context))
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_status_line("live_status", value="Choose a source and press Start.")
            with gr.Row(elem_id="live_numbers_row"):
                numbers = gr.HTML(elem_id="live_numbers", padding=False)
                gr.HTML(render_explained(), elem_id="live_explained", padding=False)
            with gr.Row(elem_id="live_ask_row"):
                question = gr.Textbox(
                    placeholder="Ask the assistant while it runs: What is next?",
                    show_label=False,
                    container=False,
                    scale=4,
                    elem_id="live_question",
                )
                ask = gr.Button("Ask", scale=0, min_width=80, interactive=False, elem_id="live_ask")
                opening = gr.Button(
                    "Open the recording", scale=0, min_width=170, interactive=False, elem_id="live_open"
                )
            with gr.Column(elem_id="live_stage"):
                monitor = _make_monitor(windows)
                stage = make_player(video_id="live_video", elem_id="live_player", streams=context.streams, hint=HINT)
    view = {
        "window": window,
        "status": status,
        "numbers": numbers,
        "monitor": monitor,
        "player": stage,
        "start": start,
        "stop": stop,
        "ask": ask,
        "question": question,
        "open": opening,
    }
    _wire_session(context, batches, windows, view, form)
    _wire_inputs(context, form, warning, status)
    in_player.wire(opening.click, partial(handlers.open_recording, context, batches), window)


def _make_source(context: AppContext, *, can_connect: bool) -> dict[str, Any]:
    short = shorten_ids(clip.name for clip in context.bundled_videos.clips)
    kinds = [FILE, WEBCAM, URL] if can_connect else [FILE, WEBCAM]
    first = context.opening_clip
    return {
        "kind": gr.Radio(kinds, value=FILE, label="Source", elem_id="live_source"),
        "bundled": gr.Dropdown(
            [(label, name) for name, label in short.items()],
            value=first.name if first else None,
            label="Bundled video",
            elem_id="live_bundled",
        ),
        "upload": gr.File(label="or a video of your own", height=110, elem_id="live_upload"),
        "url": gr.Textbox(
            label="Address",
            placeholder="rtsp://camera.local/stream",
            visible=False,
            elem_id="live_url",
            max_length=2000,
        ),
    }


def _make_task(context: AppContext) -> dict[str, Any]:
    first = context.opening_clip
    task = handlers.fill_task(context, first.name if first else None)
    sliders = make_threshold_sliders(context.config, SLIDERS)
    return {
        "goal": gr.Textbox(task.goal, label="Goal", placeholder=GOAL_HINT, elem_id="live_goal"),
        "steps": gr.Textbox(
            task.steps, label="Steps, one per line", placeholder=STEPS_HINT, lines=4, elem_id="live_steps"
        ),
        "speak": sliders.speak,
        "update": sliders.update,
        "strategy": make_context_choice(context.config, elem_id="live_context"),
    }


def _make_monitor(windows: LiveWindows) -> gr.HTML:
    def look(request: dict[str, Any]) -> dict[str, Any] | None:
        return windows.look(request)

    def push(request: dict[str, Any]) -> bool | None:
        return windows.push(request)

    return gr.HTML(
        value="",
        html_template=(STATIC / "monitor.html").read_text(encoding="utf-8"),
        js_on_load=MODULES.make_script("live/monitor.js"),
        apply_default_css=False,
        server_functions=[look, push],
        elem_id="live_monitor",
        padding=False,
    )


def _wire_session(
    context: AppContext, batches: BatchContext, windows: LiveWindows, view: dict[str, Any], form: SessionForm
) -> None:
    window = view["window"]

    def queue(window: Any, form: SessionForm, request: gr.Request) -> Updates:
        browser = request.session_hash or ""
        return handlers.queue_session(context, windows, browser, window, form, can_connect=batches.takes_paths)

    begin, withdraw = gr.State(0), gr.State(0)  # tickets: the queued session follows, or leaves the queue
    wire(view["start"].click, queue, [window, form], {**view, "begin": begin}, **CHECK_QUEUE)
    options: dict[str, Any] = {**MODEL_QUEUE, "trigger_mode": "multiple", "show_progress": "hidden"}
    streamed = wire(begin.change, partial(handlers.stream_session, context, batches), window, view, **options)
    stopped = view["stop"].click(handlers.stop_session, window, None, **AT_ONCE)
    wire(stopped.then, handlers.show_cancelled, window, {**view, "withdraw": withdraw}, **AT_ONCE)
    withdraw.change(None, None, None, cancels=streamed, **AT_ONCE)
    for event in (view["ask"].click, view["question"].submit):
        wire(event, handlers.ask, [window, view["question"]], view, **AT_ONCE)


def show_kind(context: AppContext, form: SessionForm) -> Updates:
    """Show the inputs of a kind of source, and the warning about the model for all but its bundled videos.

    The task of a bundled video comes and goes with it, unless it was edited.
    """
    is_file = form.kind == FILE
    is_own = not is_file or form.upload is not None
    task, empty = handlers.fill_task(context, form.bundled), Updates(goal="", steps="")
    is_untouched = Updates(goal=form.goal, steps=form.steps) == (task if is_own else empty)
    return Updates(
        *([empty if is_own else task] if is_untouched else []),
        bundled=gr.update(visible=is_file),
        upload=gr.update(visible=is_file),
        url=gr.update(visible=form.kind == URL),
        warning=gr.update(visible=bool(context.model_warning) and is_own),
    )


def _wire_inputs(context: AppContext, form: SessionForm, warning: Any, status: Any) -> None:
    task = {"goal": form.goal, "steps": form.steps}
    shown = {**task, "bundled": form.bundled, "upload": form.upload, "url": form.url, "warning": warning}
    changes = partial(gr.on, [form.kind.change, form.upload.change])
    wire(changes, partial(show_kind, context), form, shown, **LATEST)
    run_script(form.kind.input, "clear", None, status)  # it is about the source before
    wire(form.bundled.select, partial(handlers.fill_task, context), form.bundled, task, **AT_ONCE)

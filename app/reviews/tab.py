"""The reviews tab; ``panels`` has its panels, ``handlers`` its handlers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import LATEST, REVIEW_QUEUE, make_status_line, make_tab, read_event, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.opening import InPlayer
from stepscope.app.player.views import PlayerView
from stepscope.app.reviews import assigning, handlers, panels
from stepscope.app.reviews.assigning import QueueView
from stepscope.app.reviews.handlers import ReviewView
from stepscope.app.window.context import AppContext, ReviewContext

_KEPT_JS = """
    let kept = {};
    try { kept = {who: localStorage['stepscope:reviewer'], blind: localStorage['stepscope:blind']}; } catch {}
    const known = [kept.who || who || '', blind || kept.blind === 'yes'];
"""
RESTORE_JS = f"(who, blind) => {{{_KEPT_JS} return known; }}"
"""Script: show the reviewer's name and blind mode of the browser's storage, which the player shares."""
FOCUSED_JS = f"""(split, run, who, blind) => {{{_KEPT_JS}
    const seen = document.querySelector('#player .ss')?.focused?.();
    return [split, run, ...known, seen?.split ?? '', seen?.run ?? ''];
}}"""
"""Script: read them, and the split and run in focus, as inputs."""
CHOOSE_JS = "(run) => { document.querySelector('#player .ss')?.chooseRun?.(run); }"
"""Script: the chosen run is in focus."""
CHOOSE_SPLIT_JS = "(split) => { document.querySelector('#player .ss')?.chooseSplit?.(split); }"
"""Script: the newest run of the chosen split is in focus."""
REMEMBER = """(value) => {{
    try {{ localStorage['stepscope:{name}'] = {words}; }} catch {{}}
    document.dispatchEvent(new CustomEvent('stepscope:{name}', {{detail: {words}}}));
}}"""
"""Script: store a value in the browser, and notify the player of this window."""


def make_review_tab(
    context: AppContext, batches: BatchContext, reviews: ReviewContext, in_player: InPlayer, *, here: Any
) -> gr.Tabs:
    """Lay out the tab, inside its ``gr.Tab`` ``here``, and wire it; return its views."""
    with gr.Row():
        setup = panels.make_setup_panel(reviews)
        places = context, batches, reviews, setup, in_player
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_status_line("desk_status")
            progress = gr.HTML(elem_id="desk_progress", padding=False)
            with gr.Tabs(elem_id="review_views") as views:
                videos = panels.make_progress_table()
                queue = panels.make_queue_panel(*places)
                agreement, to_settle, unsettled = panels.make_agreement_panel(*places)
                with make_tab("Export and import"), gr.Row():
                    prefer = panels.make_export_panel(batches, reviews, setup)
                    imported = panels.make_import_panel(reviews, setup)
    view = ReviewView(
        status=status,
        progress=progress,
        split=setup.split,
        runs=setup.runs,
        reviewer=setup.reviewer,
        blind=setup.blind,
        videos=videos,
        agreement=agreement,
        to_settle=to_settle,
        unsettled=unsettled,
        prefer=prefer,
    )
    show = _wire_view(batches, reviews, setup, view, queue, refresh_on=here)

    def show_run(event: gr.EventData, request: gr.Request, *inputs: Any) -> ReviewView:
        return handlers.enter(batches, reviews, panels.make_query(request, *inputs), run=str(read_event(event, "run")))

    wire(in_player.view.run.player.review_run, show_run, setup.inputs, view, **REVIEW_QUEUE)
    wire(imported.then, show, setup.inputs, view, **REVIEW_QUEUE)

    def open_video(event: gr.SelectData, request: gr.Request, live: Any, *inputs: Any) -> PlayerView:
        return handlers.open_video(context, batches, reviews, live, panels.make_query(request, *inputs), event)

    for table in (videos, queue.videos):
        in_player.wire(table.select, open_video, *setup.inputs)
    return views


def _wire_view(
    batches: BatchContext,
    reviews: ReviewContext,
    setup: panels.SetupPanel,
    view: ReviewView,
    queue: QueueView,
    *,
    refresh_on: Any,
) -> Callable[..., Any]:
    """Update the view when the tab ``refresh_on`` is opened and on every input; return the handler."""
    show = panels.with_query(handlers.show, batches, reviews)
    show_queue = panels.with_query(assigning.show_queue, batches, reviews)
    known, latest = [setup.reviewer, setup.blind], LATEST | REVIEW_QUEUE
    refresh_on.select(None, known, known, js=RESTORE_JS, api_visibility="private")
    enter = panels.with_query(handlers.enter, batches, reviews)
    focus = [gr.Textbox(visible="hidden"), gr.Textbox(visible="hidden")]
    entered = wire(refresh_on.select, enter, [*setup.inputs, *focus], view, js=FOCUSED_JS, **REVIEW_QUEUE)
    wire(entered.then, show_queue, setup.inputs, queue, **latest)
    changes = [
        setup.split.select,
        setup.runs.select,
        setup.blind.input,
        setup.reviewer.submit,
        setup.reviewer.blur,
        setup.refresh.click,
    ]
    wire(partial(gr.on, changes), show, setup.inputs, view, **latest)
    wire(partial(gr.on, changes), show_queue, setup.inputs, queue, **latest)
    setup.runs.select(None, setup.runs, None, js=CHOOSE_JS, api_visibility="private")
    setup.split.select(None, setup.split, None, js=CHOOSE_SPLIT_JS, api_visibility="private")
    keep_name = REMEMBER.format(name="reviewer", words="value.trim()")
    keep_blind = REMEMBER.format(name="blind", words="value ? 'yes' : 'no'")
    setup.reviewer.blur(None, setup.reviewer, None, js=keep_name, api_visibility="private")
    setup.blind.input(None, setup.blind, None, js=keep_blind, api_visibility="private")
    return show

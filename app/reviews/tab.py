"""The reviews tab; ``panels`` has its panels, ``handlers`` its handlers."""

from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import LATEST, REVIEW_QUEUE, Updates, make_status_line, make_tab, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import InPlayer, ReviewedRun
from stepscope.app.reviews import assigning, handlers, panels
from stepscope.app.reviews.query import ReviewQuery
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
"""Script: the inputs are the chosen split and run, that name and mode, and the split and run in the page's head."""
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
        query, refresh = panels.make_setup_panel(reviews)
        places = context, batches, reviews, query, in_player
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_status_line("desk_status")
            progress = gr.HTML(elem_id="desk_progress", padding=False)
            with gr.Tabs(elem_id="review_views") as views:
                videos = panels.make_progress_table()
                queue = panels.make_queue_panel(*places)
                agreement, to_settle, unsettled = panels.make_agreement_panel(*places)
                with make_tab("Export and import"), gr.Row():
                    prefer = panels.make_export_panel(batches, reviews, query)
                    imported = panels.make_import_panel(reviews, query)
    view = {
        "status": status,
        "progress": progress,
        "split": query.split,
        "runs": query.run,
        "reviewer": query.typed,
        "videos": videos,
        "agreement": agreement,
        "to_settle": to_settle,
        "unsettled": unsettled,
        "prefer": prefer,
    }
    changes = [
        query.split.select,
        query.run.select,
        query.is_blind.input,
        query.typed.submit,
        query.typed.blur,
        refresh.click,
    ]
    show = panels.with_query(handlers.show, batches, reviews)
    show_queue = panels.with_query(assigning.show_queue, batches, reviews)
    enter = panels.with_query(handlers.enter, batches, reviews)
    known, latest = [query.typed, query.is_blind], LATEST | REVIEW_QUEUE
    here.select(None, known, known, js=RESTORE_JS, api_visibility="private")
    focus = [gr.Textbox(visible="hidden"), gr.Textbox(visible="hidden")]
    entered = wire(here.select, enter, [query, *focus], view, js=FOCUSED_JS, **REVIEW_QUEUE)
    wire(entered.then, show_queue, query, queue, **latest)
    wire(partial(gr.on, changes), show, query, view, **latest)
    wire(partial(gr.on, changes), show_queue, query, queue, **latest)
    wire(imported.then, show, query, view, **REVIEW_QUEUE)

    def show_run(query: ReviewQuery, asked: ReviewedRun) -> Updates:
        return handlers.enter(batches, reviews, query, run=asked.run)

    in_player.answer("review_run", panels.with_query(show_run), query, view, **REVIEW_QUEUE)
    for table in (videos, queue["videos"]):
        in_player.wire(table.select, panels.with_query(handlers.open_video, context, batches, reviews), query)
    query.run.select(None, query.run, None, js=CHOOSE_JS, api_visibility="private")
    query.split.select(None, query.split, None, js=CHOOSE_SPLIT_JS, api_visibility="private")
    keep_name = REMEMBER.format(name="reviewer", words="value.trim()")
    keep_blind = REMEMBER.format(name="blind", words="value ? 'yes' : 'no'")
    query.typed.blur(None, query.typed, None, js=keep_name, api_visibility="private")
    query.is_blind.input(None, query.is_blind, None, js=keep_blind, api_visibility="private")
    return views

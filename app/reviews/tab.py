"""The reviews tab; ``panels`` has its panels, ``handlers`` its handlers."""

from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import LATEST, REVIEW_QUEUE, make_status_line, make_tab, run_script, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import InPlayer
from stepscope.app.reviews import assigning, handlers, panels
from stepscope.app.window.context import AppContext, ReviewContext


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
    run_script(here.select, "enterReviews", known, known)
    entered = in_player.answer("enter_reviews", enter, query, view, **REVIEW_QUEUE)
    wire(entered.then, show_queue, query, queue, **latest)
    wire(partial(gr.on, changes), show, query, view, **latest)
    wire(partial(gr.on, changes), show_queue, query, queue, **latest)
    wire(imported.then, show, query, view, **REVIEW_QUEUE)

    show_run = panels.with_query(handlers.show_run, batches, reviews)
    in_player.answer("review_run", show_run, query, view, **REVIEW_QUEUE)
    for table in (videos, queue["videos"]):
        in_player.wire(table.select, panels.with_query(handlers.open_video, context, batches, reviews), query)
    run_script(query.run.select, "focusRun", query.run)
    run_script(query.split.select, "focusSplit", query.split)
    run_script(query.typed.blur, "keepReviewer", query.typed)
    run_script(query.is_blind.input, "keepBlind", query.is_blind)
    return views

"""Layout of the page: its tabs.

Texts of the model, of dialogues and of file names are only shown in text boxes and in the player, never as HTML.
"""

from functools import partial

import gradio as gr

from stepscope.app.api.endpoints import make_endpoints
from stepscope.app.batch.sweeps.calibration import wire_calibration
from stepscope.app.batch.tab import make_batch_tab
from stepscope.app.chat.tab import make_chat_tab
from stepscope.app.controls.gradio_private import drop_hidden_progress, list_waiting
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.live.tab import make_live_tab
from stepscope.app.player.opening import InPlayer
from stepscope.app.player.tab import READ_THRESHOLDS_JS, make_player_tab, wire_player, wire_previews, wire_runs
from stepscope.app.player.upload_panel import make_upload_panel
from stepscope.app.reviews.tab import make_review_tab
from stepscope.app.server.failures import report_failures
from stepscope.app.window.context import AppContext, ReviewContext

INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."


def build_page(context: AppContext, batches: BatchContext, reviews: ReviewContext) -> gr.Blocks:
    """Build the page for a model, videos, batch runs and reviews; ``launch`` takes the theme and the style sheets."""
    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        make_endpoints(context, batches, reviews)  # first: they take their names before other events do
        states = {name: gr.State(None) for name in ("clip", "live")}
        gr.Markdown(INTRODUCTION, elem_id="title")
        gr.Button("◐", elem_id="theme", size="sm")  # dom/theme.js switches the theme
        with gr.Tabs(elem_id="rooms") as tabs:
            with gr.Tab("Player", id="player") as player_tab:
                tab = make_player_tab(context, reviews, tabs, **states)
            live_tab = gr.Tab("Live", id="live") if context.remote is None else None
            if context.remote is None:
                with gr.Tab("Chat", id="chat"):
                    make_chat_tab(context)
            batch_tab = gr.Tab("Batch", id="batch")
            review_tab = gr.Tab("Reviews", id="reviews")
        wire_player(context, reviews, tab)
        ends = wire_runs(context, batches, tab, page=page)
        tab.view.run.player.shown(
            None, None, list(tab.view.thresholds), js=READ_THRESHOLDS_JS, api_visibility="private"
        )
        with tab.uploads:
            make_upload_panel(context, tab.view, ends)
        in_player = InPlayer(view=tab.view, ends=ends)
        if live_tab is not None:  # a session keeps the model, which a remote call cannot
            with live_tab:
                make_live_tab(context, batches, in_player)
        with batch_tab:
            make_batch_tab(context, batches, in_player, here=batch_tab, elsewhere=(player_tab, review_tab))
        with review_tab:
            make_review_tab(context, batches, reviews, in_player, here=review_tab)
        wire_calibration(context, batches, tab.view.clip.clip, tab.calibration, tab.view.thresholds)
        wire_previews(tab)
    drop_hidden_progress(page)
    report_failures(page)
    context.model_use.list_waiting = partial(list_waiting, page)
    return page

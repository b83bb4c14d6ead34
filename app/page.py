"""Layout of the page: its tabs.

Texts of the model, of dialogues and of file names are only shown in text boxes and in the player, never as HTML.
"""

from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from stepscope.app.api.endpoints import make_endpoints
from stepscope.app.batch.sweeps.calibration import wire_calibration
from stepscope.app.batch.tab import make_batch_tab
from stepscope.app.chat.tab import make_chat_tab
from stepscope.app.controls.gradio_private import drop_hidden_progress, list_waiting
from stepscope.app.controls.widgets import AT_ONCE, make_tab, run_script
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.live.tab import make_live_tab
from stepscope.app.player.commands import InPlayer, TabPlace, wire_command
from stepscope.app.player.tab import make_player_tab, wire_player, wire_previews, wire_runs
from stepscope.app.player.upload_panel import make_upload_panel
from stepscope.app.reviews.tab import make_review_tab
from stepscope.app.server.failures import report_failures
from stepscope.app.window.context import AppContext, ReviewContext

HEAD = '<nav class="focus" aria-label="In focus"></nav>'
INTRODUCTION = "# StepScope\nSee why a streaming video assistant spoke, stayed silent, or lost track of a step."
_OLD_VIEWS = ("Videos", "Search")  # of links: both are beside every view of Batch now


def build_page(context: AppContext, batches: BatchContext, reviews: ReviewContext) -> gr.Blocks:
    """Build the page for a model, videos, batch runs and reviews; ``launch`` takes the theme and the style sheets."""
    with gr.Blocks(title="StepScope", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page:
        make_endpoints(context, batches, reviews)  # first: they take their names before other events do
        gr.Markdown(INTRODUCTION, elem_id="title")
        gr.HTML(html_template=HEAD, apply_default_css=False, elem_id="focus", padding=False)  # player/static/focus.js
        gr.Button("◐", elem_id="theme", size="sm")  # dom/theme.js switches the theme
        with gr.Tabs(elem_id="rooms") as tabs:
            with make_tab("Player", tab_id="player") as player_tab:
                tab = make_player_tab(context, batches, reviews, tabs)
            live_tab = make_tab("Live", tab_id="live") if context.remote is None else None
            if context.remote is None:
                with make_tab("Chat", tab_id="chat"):
                    make_chat_tab(context)
            batch_tab = make_tab("Batch", tab_id="batch")
            review_tab = make_tab("Reviews", tab_id="reviews")
        wire_player(context, batches, reviews, tab)
        ends = wire_runs(context, batches, tab, page=page)
        run_script(tab.view.player.shown, "readThresholds", None, tab.view.sliders)
        with tab.uploads:
            make_upload_panel(context, tab.view, ends)
        in_player = InPlayer(view=tab.view, ends=ends)
        if live_tab is not None:  # a session keeps the model, which a remote call cannot
            with live_tab:
                make_live_tab(context, batches, in_player)
        with batch_tab:
            elsewhere = (player_tab, review_tab)
            batch_views = make_batch_tab(context, batches, reviews, in_player, here=batch_tab, elsewhere=elsewhere)
        with review_tab:
            review_views = make_review_tab(context, batches, reviews, in_player, here=review_tab)
        wire_calibration(context, batches, tab.view, tab.calibration)
        wire_previews(tab)
        _wire_tabs(page, tab.view.player, tabs, {"batch": batch_views, "reviews": review_views})
    drop_hidden_progress(page)
    report_failures(page)
    context.model_use.list_waiting = partial(list_waiting, page)
    return page


def _wire_tabs(page: gr.Blocks, player: Any, tabs: gr.Tabs, views: Mapping[str, gr.Tabs]) -> None:
    """Open the tab of the address, and its view, when the page opens and when the player's script asks after Back."""

    def choose(tab: str | None, view: str | None) -> list[Any]:
        return [_select(tabs, tab), *(_select(each, view if name == tab else None) for name, each in views.items())]

    def open_linked(request: gr.Request) -> list[Any]:
        tab, view = (request.query_params.get(name, "") for name in ("tab", "view"))
        for kind, name, of in (("tab", tab, tabs), ("view", view, views.get(tab))):
            known = [one.id for one in of.children] if of else []
            if name and of and name not in [*known, *_OLD_VIEWS]:
                said = f"The link names no {kind} of this page: {name[:40]}; {kind}s are {', '.join(known)}."
                gr.Warning(escape(said))
        return choose(tab, view)

    def open_asked(place: TabPlace) -> Any:
        return tuple(choose(place.tab, place.view))

    outputs = [tabs, *views.values()]
    page.load(open_linked, None, outputs, **AT_ONCE)
    wire_command(player, "open_tabs", open_asked, None, tuple(outputs))


def _select(tabs: gr.Tabs, tab_id: str | None) -> Any:
    """Return the update that opens a tab by its id; no change if there is none."""
    return gr.Tabs(selected=tab_id) if tab_id in [tab.id for tab in tabs.children] else gr.skip()

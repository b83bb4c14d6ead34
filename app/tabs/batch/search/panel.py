"""Layout and wiring of the tab *Search*."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.downloads import SAVE_JS, make_download
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.opening.saved_runs import OpenedHit
from stepscope.app.tabs.batch.search import handlers as searching
from stepscope.app.tabs.batch.search.handlers import FoundKind, SearchView
from stepscope.app.tabs.batch.selection.handlers import SavedSlice
from stepscope.app.web.views import PlayerView

HINT: Final = (
    "Words or “a phrase”, and failure:missed · failure:any · cause:swap · step:S3 · is:user · near:0.05 (to the "
    "threshold) · delay>2 · latency>500 · verdict:… · tag:… · -term excludes"
)


class SearchPanel(NamedTuple):
    """The inputs and outputs of a search."""

    terms: Any
    scope: Any
    search: Any
    pictures: Any
    called: Any
    save: Any
    saved: Any
    download: Any
    at: Any
    previous: Any
    next: Any
    view: SearchView


def make_search_panel() -> SearchPanel:
    """Lay out the search."""
    with gr.Row():
        query = gr.Textbox(
            label="Search", info=HINT, placeholder="failure:missed cause:swap", max_lines=1, scale=6, elem_id="search"
        )
        terms = gr.Dropdown([], label="Add a term", interactive=True, scale=2, elem_id="search_terms")
        scope = gr.Dropdown(
            [searching.THIS_RUN, searching.ALL_RUNS], value=searching.THIS_RUN, label="In", scale=2, elem_id="search_in"
        )
        search = gr.Button("Search", variant="primary", size="sm", scale=0, min_width=110, elem_id="search_start")
    said = make_status_line("search_said")
    pictures = gr.Gallery(
        show_label=False,
        columns=searching.NUM_PICTURES,
        rows=1,
        height=130,
        allow_preview=False,
        buttons=[],
        elem_id="search_pictures",
    )
    table = gr.Dataframe(
        headers=searching.HEADERS,
        datatype=["number", "str", "str", "str", "str", "str", "str", "str", "number"],
        interactive=False,
        wrap=True,
        max_height=460,
        column_widths=["4%", "15%", "8%", "10%", "12%", "18%", "18%", "8%", "7%"],
        elem_id="search_hits",
    )
    with gr.Row():
        called = gr.Textbox(
            label="Name of a new slice", placeholder="name", max_lines=1, scale=2, elem_id="search_slice"
        )
        save = gr.Button("Save videos as slice", size="sm", scale=0, min_width=170, elem_id="search_save")
        download = gr.Button("Save as CSV", size="sm", scale=0, min_width=130, elem_id="search_csv")
        previous = gr.Button("Previous moment", size="sm", scale=0, elem_id="search_previous", visible="hidden")
        following = gr.Button("Next moment", size="sm", scale=0, elem_id="search_next", visible="hidden")
    saved = gr.HTML(elem_id="search_saved", padding=False)
    return SearchPanel(
        terms=terms,
        scope=scope,
        search=search,
        pictures=pictures,
        called=called,
        save=save,
        saved=saved,
        download=download,
        at=gr.State(0),
        previous=previous,
        next=following,
        view=SearchView(query=query, hits=gr.State(None), said=said, table=table),
    )


def wire_search_panel(
    context: AppContext,
    batches: BatchContext,
    panel: SearchPanel,
    *,
    runs: Any,
    part: Any,
    views: Any,
    here: Any,
    live: Any,
    player: PlayerView,
    ends: Mapping[str, Any],
) -> None:
    """Search in the shown run; a click on a row or a picture opens the moment in the player.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The panel.
        runs: The dropdown of the shown run.
        part: The dropdown of the slices, which a new one joins.
        views: The ``gr.Tabs`` of the room.
        here: The ``gr.Tab`` of this tab.
        live: State of the run in the player of this window.
        player: The components of the player.
        ends: Arguments of events that exchange the video, such as the events to cancel.
    """
    view, opened = panel.view, OpenedHit(player=player, at=panel.at)

    def search_linked(name: Any, scope: Any, query: Any, request: gr.Request) -> SearchView:
        return searching.search_linked(batches, name, scope, query, request.query_params.get("search"))

    def open_row(live: Any, hits: Any, event: gr.SelectData) -> OpenedHit:
        return searching.open_hit(context, batches, live, hits, int(event.row_value[0]) - 1)

    def open_picture(live: Any, hits: Any, event: gr.SelectData) -> OpenedHit:
        return searching.open_hit(context, batches, live, hits, int(event.index))

    def step(by: int, live: Any, hits: Any, at: int) -> OpenedHit:
        return searching.open_hit(context, batches, live, hits, at + by)

    def find_kind(event: gr.EventData) -> FoundKind:
        return searching.find_kind(batches, event)

    chosen = [runs, panel.scope, view.query]
    found = FoundKind(runs=runs, scope=panel.scope, query=view.query, views=views)
    asked = wire(player.run.player.find_kind, find_kind, None, found, **AT_ONCE)
    asked.then(lambda: gr.Tabs(selected="batch"), None, player.tabs, **AT_ONCE)
    entered, term = partial(gr.on, [here.select, runs.change]), [view.query, panel.terms]
    begun = (
        wire(
            partial(gr.on, [panel.search.click, view.query.submit, panel.scope.input]),
            partial(searching.run_search, batches),
            chosen,
            view,
            **LATEST,
        ),
        wire(entered, search_linked, chosen, view, **LATEST),
        wire(asked.then, partial(searching.run_search, batches), chosen, view, **LATEST),
        wire(
            panel.terms.input(searching.add_term, term, term, **AT_ONCE).then,
            partial(searching.run_search, batches),
            chosen,
            view,
            **LATEST,
        ),
    )
    entered(partial(searching.offer_terms, batches), runs, panel.terms, **AT_ONCE)
    for event in begun:
        event.then(partial(searching.show_pictures, context, batches), view.hits, panel.pictures, **LATEST)
    wire(view.table.select, open_row, [live, view.hits], opened, **ends)
    wire(panel.pictures.select, open_picture, [live, view.hits], opened, **ends)
    for button, by in ((panel.previous, -1), (panel.next, 1)):
        wire(button.click, partial(step, by), [live, view.hits, panel.at], opened, **ends)
    saved = SavedSlice(part=part, result=panel.saved)
    wire(panel.save.click, partial(searching.save_hits, batches), [runs, view.hits, panel.called], saved, **AT_ONCE)
    file = make_download()

    def download(*inputs: Any) -> Any:
        yield from searching.download_hits(batches, *inputs)

    written = panel.download.click(download, chosen, file, **AT_ONCE)
    written.then(None, file, None, js=SAVE_JS, api_visibility="private")

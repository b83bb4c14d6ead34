"""Layout and wiring of the tab *Protocols*."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.protocols import handlers
from stepscope.app.tabs.batch.protocols.handlers import ALONE, FIRST_PROTOCOLS, TURN_HEADERS, ProtocolsView
from stepscope.app.tabs.batch.table_row import make_table_row, wire_table_row
from stepscope.app.web.views import PlayerView
from stepscope.eval.protocols import PROTOCOLS


class ProtocolsPanel(NamedTuple):
    """The inputs and outputs of the tab."""

    other: Any
    protocols: Any
    downloads: Any
    view: ProtocolsView


def make_protocols_panel() -> ProtocolsPanel:
    """Lay out the tab."""
    with gr.Row():
        protocols = gr.Dropdown(
            list(PROTOCOLS),
            value=list(FIRST_PROTOCOLS),
            label="What would it be under … (also with own parameters, such as spot-pnr:k=1)",
            multiselect=True,
            allow_custom_value=True,
            scale=5,
            elem_id="protocols",
        )
        other = gr.Dropdown([ALONE], value=ALONE[1], label="Beside run B", scale=1, elem_id="protocols_other")
    with gr.Row(elem_id="protocols_files"):
        downloads = make_table_row("protocols")
    said = make_status_line("protocols_said")
    cards = gr.HTML(elem_id="protocol_cards", padding=False)
    turns = gr.Dataframe(
        headers=TURN_HEADERS,
        datatype=["str", "number", "str", "str", "str", "str"],
        interactive=False,
        max_height=320,
        label="Reference turns that count under some of the protocols only: click a row to open it in the player",
        column_widths=["14%", "8%", "12%", "28%", "19%", "19%"],
        wrap=True,
        elem_id="protocol_turns",
    )
    view = ProtocolsView(shown=gr.State(None), said=said, cards=cards, turns=turns)
    return ProtocolsPanel(other=other, protocols=protocols, downloads=downloads, view=view)


def wire_protocols_panel(
    context: AppContext,
    batches: BatchContext,
    panel: ProtocolsPanel,
    *,
    runs: Any,
    here: Any,
    live: Any,
    player: PlayerView,
    ends: Mapping[str, Any],
) -> None:
    """Score the shown run under the chosen protocols; a click on a turn opens it in the player.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The panel.
        runs: The dropdown of the shown run.
        here: The ``gr.Tab`` of this tab.
        live: State of the run in the player of this window.
        player: The components of the player.
        ends: Arguments of events that exchange the video, such as the events to cancel.
    """
    view, chosen = panel.view, [runs, panel.other, panel.protocols]

    def show(*inputs: Any) -> Iterator[ProtocolsView]:
        yield from handlers.show(context, batches, *inputs)

    def show_again(*inputs: Any) -> Iterator[ProtocolsView]:
        yield from handlers.show_again(context, batches, *inputs)

    def open_turn(live: Any, shown: Any, event: gr.SelectData) -> PlayerView:
        return handlers.open_turn(context, batches, live, shown, event)

    options = {**LATEST, "show_progress": "minimal", "show_progress_on": view.said}
    gr.on([here.select, runs.change], partial(handlers.list_runs, batches), [runs, panel.other], panel.other, **LATEST)
    wire(partial(gr.on, [here.select, panel.other.input, panel.protocols.input]), show, chosen, view, **options)
    opened = gr.State(False)
    here.select(lambda: True, None, opened, **AT_ONCE)
    wire(runs.change, show_again, [opened, *chosen], view, **options)
    wire(view.turns.select, open_turn, [live, view.shown], player, **ends)
    wire_table_row(panel.downloads, handlers.write_table, [view.shown])

"""Layout and wiring of the tab *Leaderboard*."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.leaderboard import handlers as boards
from stepscope.app.tabs.batch.leaderboard.handlers import BoardChoices, BoardView, OpenedRun
from stepscope.app.tabs.batch.table_row import make_table_row, wire_table_row
from stepscope.eval.reports.leaderboard import DEFAULT_METRICS
from stepscope.eval.reports.table_formats import TableFormat


class LeaderboardPanel(NamedTuple):
    """The inputs and outputs of the leaderboard."""

    runs: Any
    metrics: Any
    sort_by: Any
    baselines: Any
    """Whether rows that need no model are shown, such as always silent."""
    downloads: dict[TableFormat, Any]
    offered: Any
    """State: the split whose runs are offered."""
    view: BoardView


def make_leaderboard_panel() -> LeaderboardPanel:
    """Lay out the leaderboard."""
    choices = boards.metric_choices()
    with gr.Row():
        runs = gr.Dropdown(
            [], label="Runs of the split", multiselect=True, interactive=True, scale=3, elem_id="board_runs"
        )
        metrics = gr.Dropdown(
            choices,
            value=list(DEFAULT_METRICS),
            label="Scores, also of protocols, such as spot-pnr:k=1",
            multiselect=True,
            allow_custom_value=True,
            scale=4,
            elem_id="board_metrics",
        )
    with gr.Row(elem_id="board_order"):
        sort_by = gr.Dropdown(
            choices,
            value=DEFAULT_METRICS[0],
            label="Best first by",
            interactive=True,
            allow_custom_value=True,
            scale=0,
            min_width=280,
            elem_id="board_sort",
        )
        baselines = gr.Checkbox(label="Baselines", scale=0, min_width=140, elem_id="board_baselines")
        downloads = make_table_row("board")
    said = make_status_line("board_said")
    table = gr.Dataframe(
        headers=boards.HEADERS,
        interactive=False,
        wrap=True,
        max_height=560,
        column_widths=["16%", "12%", *["11%"] * len(DEFAULT_METRICS)],
        elem_id="board",
    )
    view = BoardView(board=gr.State(None), said=said, table=table)
    return LeaderboardPanel(
        runs=runs,
        metrics=metrics,
        sort_by=sort_by,
        baselines=baselines,
        downloads=downloads,
        offered=gr.State(None),
        view=view,
    )


def wire_leaderboard_panel(
    context: AppContext, batches: BatchContext, panel: LeaderboardPanel, *, runs: Any, views: Any, here: Any
) -> Any:
    """Wire the leaderboard; return the event after which the run of a clicked row is the shown run.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The panel.
        runs: The dropdown of the shown run.
        views: The tabs of the shown run.
        here: The ``gr.Tab`` of the leaderboard; when it is opened, the runs are listed and scored again.
    """
    view, chosen = panel.view, [panel.runs, panel.metrics, panel.sort_by, panel.baselines]
    listed = wire(
        here.select,
        partial(boards.list_runs, batches),
        [runs, panel.runs, panel.offered],
        BoardChoices(runs=panel.runs, offered=panel.offered),
        **AT_ONCE,
    )
    scoring: dict[str, Any] = {"concurrency_limit": 2, "api_visibility": "private", "trigger_mode": "always_last"}
    scoring |= {"show_progress": "minimal", "show_progress_on": view.said}
    for event in (listed.then, partial(gr.on, [panel.runs.input, panel.metrics.input, panel.baselines.input])):
        wire(event, partial(boards.show_board, context, batches), chosen, view, **scoring)
    wire(panel.sort_by.input, partial(boards.show_order, batches), [view.board, panel.sort_by], view, **LATEST)
    wire_table_row(panel.downloads, boards.write_board, [view.board, panel.sort_by])

    def open_run(event: gr.SelectData) -> OpenedRun:
        return boards.open_run(batches, event)

    return wire(view.table.select, open_run, None, OpenedRun(runs=runs, views=views), **AT_ONCE)

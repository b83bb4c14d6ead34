"""Layout and wiring of the tab *Compare*."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import COMPARISON_CHARTS
from stepscope.app.tabs.batch.compare import handlers as comparing
from stepscope.app.tabs.batch.compare.handlers import CompareView, VideosView
from stepscope.app.tabs.batch.compare.tables import TURN_HEADERS, VIDEO_HEADERS, WRONG_IN, metric_choices
from stepscope.app.tabs.batch.figure_row import FigureRow, make_figure_row, wire_figure_row
from stepscope.app.web.chart import make_chart
from stepscope.app.web.views import PlayerView
from stepscope.eval.metrics.definitions import NUM_FAILURES


class ComparePanel(NamedTuple):
    """The inputs and outputs of a comparison."""

    other: Any
    wrong_in: Any
    metric: Any
    figures: FigureRow
    view: CompareView


def make_compare_panel() -> ComparePanel:
    """Lay out the comparison of two runs."""
    with gr.Row():
        other = gr.Dropdown([], label="Run B; A is the run above", interactive=False, elem_id="other")
        wrong_in = gr.Dropdown(WRONG_IN, value="only B", label="Reference turns wrong in", elem_id="who")
        metric = gr.Dropdown(metric_choices(), value=NUM_FAILURES, label="Videos by", elem_id="compare_by")
    said = make_status_line("compared")
    failures = gr.HTML(elem_id="compared_failures", padding=False)
    turns = _make_turns_table()
    with gr.Row():
        with gr.Column(scale=3, min_width=480):
            videos = _make_videos_table()
        with gr.Column(scale=2, min_width=320):
            distribution = make_chart("distribution", hint="Click a point to open both")
    figures = make_figure_row(COMPARISON_CHARTS, elem_id="comparison")
    view = CompareView(
        compared=gr.State(None),
        said=said,
        failures=failures,
        scores=gr.HTML(elem_id="differences", padding=False),
        videos=videos,
        distribution=distribution,
        turns=turns,
    )
    return ComparePanel(other=other, wrong_in=wrong_in, metric=metric, figures=figures, view=view)


def _make_turns_table() -> Any:
    """Lay out the table of turns."""
    return gr.Dataframe(
        headers=TURN_HEADERS,
        datatype=["str", "number", "str", "str", "str"],
        interactive=False,
        max_height=260,
        label="Reference turns: click a row to open both runs in the player. A redundant message belongs to none",
        column_widths=["20%", "10%", "12%", "12%", "46%"],
        wrap=True,
        elem_id="turns",
    )


def _make_videos_table() -> Any:
    """Lay out the table of videos."""
    return gr.Dataframe(
        headers=VIDEO_HEADERS,
        datatype=["str", *["number"] * (len(VIDEO_HEADERS) - 1)],
        interactive=False,
        max_height=300,
        label="Videos, changed ones first by loss of B: click a row to open both runs at the worst moment",
        column_widths=["28%", *["12%"] * 6],
        wrap=True,
        elem_id="compared_videos",
    )


def wire_compare_panel(
    context: AppContext,
    batches: BatchContext,
    panel: ComparePanel,
    *,
    runs: Any,
    here: Any,
    status: Any,
    live: Any,
    player: PlayerView,
    ends: Mapping[str, Any],
) -> None:
    """Compare the shown run with a second run; a click on a row opens both in the player.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The panel.
        runs: The dropdown of the shown run.
        here: The ``gr.Tab`` of this tab.
        status: The status line of the batch tab.
        live: State of the run in the player of this window.
        player: The components of the player.
        ends: Arguments of events that exchange the video, such as the events to cancel.
    """
    view = panel.view

    def open_both(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return comparing.open_both(context, batches, live, compared, event)

    def open_picked(live: Any, compared: Any, event: gr.EventData) -> Any:
        return comparing.open_picked(context, batches, live, compared, event)

    def open_turn(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return comparing.open_turn(context, batches, live, compared, event)

    def list_other_runs(name: Any, other: Any, request: gr.Request) -> Any:
        return comparing.list_other_runs(batches, name, other, request.query_params.get("against"))

    def compare(name: Any, other: Any, wrong_in: Any, metric: Any, request: gr.Request) -> Iterator[CompareView]:
        other = other or request.query_params.get("against")  # of the address, which is opened again
        yield comparing.show_begun(name, other)
        yield comparing.compare(context, batches, name, other, wrong_in, metric)

    gr.on([here.select, runs.change], list_other_runs, [runs, panel.other], panel.other, **LATEST)
    chosen = [runs, panel.other, panel.wrong_in, panel.metric]
    for event in (panel.other.select, runs.change):  # each on its own: a choice is not dropped while the other is shown
        options = {**LATEST, "show_progress": "minimal", "show_progress_on": view.said}
        ended = wire(event, compare, chosen, view, **options)
        wire(ended.then, partial(comparing.compare_again, context, batches), [view.compared, *chosen], view, **LATEST)
    sort_videos = partial(comparing.sort_videos, batches)
    of_videos = VideosView(videos=view.videos, distribution=view.distribution)
    wire(panel.metric.select, sort_videos, [view.compared, panel.metric], of_videos, **LATEST)
    draw = partial(comparing.draw_comparison_chart, batches)
    wire_figure_row(panel.figures, draw, [view.compared, panel.metric], status=view.said)
    choose_turns = partial(comparing.choose_turns, batches)
    panel.wrong_in.select(choose_turns, [view.compared, panel.wrong_in], view.turns, **LATEST)
    wire(view.videos.select, open_both, [live, view.compared], player, **ends)
    wire(view.distribution.pick, open_picked, [live, view.compared], player, **ends)
    wire(view.turns.select, open_turn, [live, view.compared], player, **ends)

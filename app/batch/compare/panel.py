"""Layout and wiring of the tab *Compare*."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from app.batch.compare import handlers as comparing
from app.batch.compare.handlers import CompareView
from app.batch.compare.tables import TURN_HEADERS, VIDEO_HEADERS, WRONG_IN, metric_choices
from app.batch.context import BatchContext
from app.player.context import AppContext
from app.player.views import PlayerView
from app.widgets import AT_ONCE, make_status_line, wire
from eval.metrics.definitions import NUM_FAILURES


class ComparePanel(NamedTuple):
    """The inputs and outputs of a comparison."""

    other: Any
    wrong_in: Any
    metric: Any
    view: CompareView


def make_compare_panel() -> ComparePanel:
    """Lay out the comparison of two runs."""
    with gr.Row():
        other = gr.Dropdown([], label="Run B; A is the run above", interactive=True, elem_id="other")
        wrong_in = gr.Dropdown(WRONG_IN, value="only B", label="Reference turns wrong in", elem_id="who")
        metric = gr.Dropdown(metric_choices(), value=NUM_FAILURES, label="Videos by", elem_id="compare_by")
    said = make_status_line("compared")
    failures = gr.HTML(elem_id="compared_failures", padding=False)
    turns, videos = _make_compared_tables()
    view = CompareView(
        compared=gr.State(None),
        said=said,
        failures=failures,
        scores=gr.HTML(elem_id="differences", padding=False),
        videos=videos,
        turns=turns,
    )
    return ComparePanel(other=other, wrong_in=wrong_in, metric=metric, view=view)


def _make_compared_tables() -> tuple[Any, Any]:
    """Lay out the tables of turns and of videos."""
    turns = gr.Dataframe(
        headers=TURN_HEADERS,
        datatype=["str", "number", "str", "str", "str"],
        interactive=False,
        max_height=260,
        label="Reference turns: click a row to open both runs in the player. A redundant message belongs to none",
        column_widths=["20%", "10%", "12%", "12%", "46%"],
        wrap=True,
        elem_id="turns",
    )
    videos = gr.Dataframe(
        headers=VIDEO_HEADERS,
        datatype=["str", *["number"] * (len(VIDEO_HEADERS) - 1)],
        interactive=False,
        max_height=260,
        label="Videos, changed ones first by loss of B: click a row to open both runs at the worst moment",
        column_widths=["28%", *["12%"] * 6],
        wrap=True,
        elem_id="compared_videos",
    )
    return turns, videos


def wire_compare_panel(
    context: AppContext,
    batches: BatchContext,
    panel: ComparePanel,
    *,
    runs: Any,
    here: Any,
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
        live: State of the run in the player of this window.
        player: The components of the player.
        ends: Arguments of events that show another video, such as the events to cancel.
    """
    view = panel.view

    def open_both(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return comparing.open_both(context, batches, live, compared, event)

    def open_turn(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return comparing.open_turn(context, batches, live, compared, event)

    def list_other_runs(name: Any, other: Any, request: gr.Request) -> Any:
        return comparing.list_other_runs(batches, name, other or request.query_params.get("against"))

    def compare(name: Any, other: Any, wrong_in: Any, metric: Any, request: gr.Request) -> CompareView:
        other = other or request.query_params.get("against")  # of the address, which is opened again
        return comparing.compare(context, batches, name, other, wrong_in, metric)

    gr.on([here.select, runs.change], list_other_runs, [runs, panel.other], panel.other, **AT_ONCE)
    wire(
        partial(gr.on, [panel.other.select, runs.change]),
        compare,
        [runs, panel.other, panel.wrong_in, panel.metric],
        view,
        concurrency_limit=None,
        api_visibility="private",
    )
    sort_videos = partial(comparing.sort_videos, batches)
    panel.metric.select(sort_videos, [view.compared, panel.metric], view.videos, **AT_ONCE)
    choose_turns = partial(comparing.choose_turns, batches)
    panel.wrong_in.select(choose_turns, [view.compared, panel.wrong_in], view.turns, **AT_ONCE)
    wire(view.videos.select, open_both, [live, view.compared], player, **ends)
    wire(view.turns.select, open_turn, [live, view.compared], player, **ends)

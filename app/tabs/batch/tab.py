"""Layout and wiring of the batch tab. The modules beside it and below lay out and wire its parts."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, LATEST, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.opening import InPlayer, open_picked, open_video
from stepscope.app.tabs.batch.compare import ComparePanel, make_compare_panel, wire_compare_panel
from stepscope.app.tabs.batch.leaderboard import LeaderboardPanel, make_leaderboard_panel, wire_leaderboard_panel
from stepscope.app.tabs.batch.new_run.form import FormPanel, make_form_panel, wire_form_panel
from stepscope.app.tabs.batch.new_run.start import FilesCheck, check_files, import_files, start
from stepscope.app.tabs.batch.protocols import ProtocolsPanel, make_protocols_panel, wire_protocols_panel
from stepscope.app.tabs.batch.publishing import PublishPanel, make_publish_panel, wire_publish_panel
from stepscope.app.tabs.batch.run_list import RunListPanel, make_run_list_panel, wire_run_list_panel
from stepscope.app.tabs.batch.runs import handlers
from stepscope.app.tabs.batch.runs.handlers import BatchView, ShownRun
from stepscope.app.tabs.batch.runs.panel import (
    ChartsPanel,
    RunPanel,
    make_charts_panel,
    make_run_panel,
    make_video_table,
    wire_charts,
    wire_downloads,
)
from stepscope.app.tabs.batch.search import SearchPanel, make_search_panel, wire_search_panel
from stepscope.app.tabs.batch.selection import (
    OnlyKind,
    SelectionPanel,
    choose_kind,
    make_selection_panel,
    wire_selection_panel,
    with_filter,
)
from stepscope.app.tabs.batch.sweeps.panel import (
    SweepPanel,
    make_sweep_panel,
    wire_points,
    wire_sweep_files,
    wire_sweep_panel,
)
from stepscope.app.tabs.batch.training import TrainingPanel, make_training_panel, wire_training_panel
from stepscope.app.web.views import SliderThresholds

POLL_INTERVAL_S: Final = 1.0
"""Interval at which a window polls the state of its run, while the tab is open."""

FOLD_FORM_JS: Final = """(name) => {
    document.dispatchEvent(new CustomEvent('stepscope:studied', {detail: {new_run: name ? 'folded' : 'open'}}));
}"""
"""Script: the form is open without a run to show."""


class Layout(NamedTuple):
    """The components of the tab."""

    form: FormPanel
    run: RunPanel
    publish: PublishPanel
    views: Any
    tabs: Mapping[str, Any]
    """The ``gr.Tab`` components by the name of their panel."""
    steps: Sequence[tuple[Any, int]]
    """The buttons that go through the videos, with their direction."""
    selection: SelectionPanel
    slice_scores: Any
    search: SearchPanel
    protocols: ProtocolsPanel
    charts: ChartsPanel
    sweep: SweepPanel
    compare: ComparePanel
    board: LeaderboardPanel
    run_list: RunListPanel
    training: TrainingPanel
    view: BatchView


def make_batch_tab(
    context: AppContext,
    batches: BatchContext,
    in_player: InPlayer,
    *,
    sliders: SliderThresholds,
    here: Any,
    elsewhere: tuple[Any, ...],
) -> None:
    """Lay out the tab, inside its ``gr.Tab`` ``here``, and wire it.

    ``sliders`` are those of the player, and ``elsewhere`` the remaining ``gr.Tab`` components.
    """
    layout = _make_layout(batches)
    form, run, sweep, view = layout.form, layout.run, layout.sweep, layout.view
    _wire_runs(context, batches, layout, here=here, elsewhere=elsewhere)
    wire_form_panel(batches, form, runs=run.runs, use=run.use, status=view.status, here=here)
    wire_downloads(batches, run)
    wire_publish_panel(context, batches, layout.publish, runs=run.runs, selection=layout.selection)
    wire_charts(batches, layout.charts, runs=run.runs, shown=view.shown, here=layout.tabs["charts"], status=view.status)
    wire_sweep_panel(
        context, batches, sweep, runs=run.runs, shown=view.shown, devices=form.devices, here=layout.tabs["sweep"]
    )
    wire_sweep_files(batches, sweep, runs=run.runs, status=view.status)
    wire_points(sweep, runs=run.runs, form=(form.speak, form.update), player=sliders)
    in_player.wire(view.videos.select, partial(open_video, context, batches), run.runs)
    filtered = [in_player.live, run.runs, layout.selection.order, layout.selection.only, layout.selection.part]
    for button, by in layout.steps:
        step = with_filter(batches, partial(handlers.step_video, context, by=by))
        wire(button.click, step, filtered, in_player.view, **in_player.steps)
    in_player.wire(layout.charts.charts["videos"].pick, partial(open_picked, context, batches), run.runs)
    shown: dict[str, Any] = {"runs": run.runs, "in_player": in_player}
    ending = {"batch": view.shown, **shown}  # shown again once the run has ended
    places = {"part": layout.selection.part, "views": layout.views, "here": layout.tabs["search"]}
    wire_search_panel(context, batches, layout.search, **places, **shown)
    wire_compare_panel(context, batches, layout.compare, here=layout.tabs["compare"], **ending)
    wire_protocols_panel(context, batches, layout.protocols, here=layout.tabs["protocols"], **ending)
    wire_training_panel(
        context, batches, layout.training, here=layout.tabs["training"], batch_tab=here, elsewhere=elsewhere
    )


def _make_layout(batches: BatchContext) -> Layout:
    shown, tabs = gr.State(ShownRun()), dict[str, Any]()
    run = make_run_panel()
    with gr.Row():
        form = make_form_panel(batches)
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            publish = make_publish_panel(batches, run.publish)
            with gr.Tabs(elem_id="batch_views") as views:
                with gr.Tab("Videos", id="videos"):
                    selection = make_selection_panel()
                    videos, previous, following = make_video_table()
                    slice_scores = gr.HTML(elem_id="slice_scores", padding=False)
                with gr.Tab("Search", id="search") as tabs["search"]:
                    search = make_search_panel()
                with gr.Tab("Scores"):
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with gr.Tab("Protocols") as tabs["protocols"]:
                    protocols = make_protocols_panel()
                with gr.Tab("Charts") as tabs["charts"]:
                    charts = make_charts_panel()
                with gr.Tab("Thresholds") as tabs["sweep"]:
                    sweep = make_sweep_panel()
                with gr.Tab("Compare") as tabs["compare"]:
                    compare = make_compare_panel()
                with gr.Tab("Leaderboard") as tabs["board"]:
                    board = make_leaderboard_panel()
                with gr.Tab("Runs") as tabs["run_list"]:
                    run_list = make_run_list_panel()
                with gr.Tab("Training") as tabs["training"]:
                    training = make_training_panel()
    view = BatchView(
        shown=shown,
        status=run.status,
        progress=run.progress,
        runs=run.runs,
        videos=videos,
        corpus=corpus,
        cancel=run.cancel,
        use=run.use,
        score=run.score,
        **run.downloads,
        origin=run.origin,
        timer=gr.Timer(POLL_INTERVAL_S, active=False),
        problem=form.problem,
    )
    return Layout(
        form=form,
        run=run,
        publish=publish,
        views=views,
        steps=((previous, -1), (following, 1)),
        tabs=tabs,
        selection=selection,
        slice_scores=slice_scores,
        search=search,
        protocols=protocols,
        charts=charts,
        sweep=sweep,
        compare=compare,
        board=board,
        run_list=run_list,
        training=training,
        view=view,
    )


def _wire_runs(
    context: AppContext, batches: BatchContext, layout: Layout, *, here: Any, elsewhere: tuple[Any, ...]
) -> None:
    """Start, cancel and show runs, and select their videos; poll while the tab is open."""
    form, run, selection, view = layout.form, layout.run, layout.selection, layout.view
    filters = [selection.order, selection.only, selection.part]

    def wire_view(event: Callable[..., Any], handler: Callable[..., Any], *inputs: Any) -> None:
        """Register a handler of ``view`` that takes a ``VideoFilter`` last."""
        wire(event, with_filter(batches, handler), [*inputs, *filters], view, **AT_ONCE)

    def show_all(*inputs: Any) -> BatchView:
        return handlers.show(*inputs)._replace(runs=gr.skip())

    def enter(request: gr.Request, name: Any, *filters: Any) -> Any:
        """Show the chosen run, else that of the address."""
        linked = request.query_params.get("shown")
        return with_filter(batches, handlers.enter)(
            name or (linked if linked in batches.run_names() else None), *filters
        )

    wire_view(form.start.click, start, *form.entries)
    checked = FilesCheck(problem=form.problem, signal=form.rule.signal)
    wire(form.results.upload, partial(check_files, batches), [form.split, form.results], checked, **AT_ONCE)
    wire_view(form.import_results.click, import_files, form.split, form.results, form.name, *form.rule)
    wire_view(run.cancel.click, handlers.cancel, run.runs)
    wire_view(run.score.click, handlers.score, run.runs)
    changes = [run.runs.select, selection.order.select, selection.only.input, selection.part.input]
    wire(partial(gr.on, changes), with_filter(batches, handlers.show), [run.runs, *filters], view, **LATEST)
    wire_view(view.timer.tick, handlers.tick, view.shown, view.progress, run.runs)
    entered = wire(here.select, enter, [run.runs, *filters], view, **AT_ONCE)
    entered.then(None, run.runs, None, js=FOLD_FORM_JS, api_visibility="private")
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, view.timer, **AT_ONCE)
    offered = wire_selection_panel(context, batches, selection, runs=run.runs, result=layout.slice_scores)
    wire_view(offered.then, show_all, run.runs)
    opened = wire_leaderboard_panel(
        context, batches, layout.board, runs=run.runs, views=layout.views, here=layout.tabs["board"]
    )
    listed = wire_run_list_panel(batches, layout.run_list, runs=run.runs, here=layout.tabs["run_list"])
    for event in (opened, *listed):
        wire_view(event.then, handlers.show, run.runs)
    only_kind = OnlyKind(only=selection.only, views=layout.views)
    picked = wire(layout.charts.charts["failures"].pick, partial(choose_kind, batches), run.runs, only_kind, **AT_ONCE)
    wire_view(picked.then, show_all, run.runs)

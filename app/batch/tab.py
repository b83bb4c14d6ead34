"""Wiring of the batch tab. The layout is in ``app.batch.panels``, the handlers in ``app.batch.handlers``."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from app.batch import add_split as adding
from app.batch import compare as comparing
from app.batch import handlers
from app.batch import saved_runs as saved
from app.batch.compare import CompareView
from app.batch.context import BatchContext
from app.batch.downloads import TABLES, download
from app.batch.form import FilledForm, use_settings
from app.batch.handlers import BatchView, ShownRun
from app.batch.panels import (
    ComparePanel,
    FormPanel,
    RunPanel,
    make_charts,
    make_compare_panel,
    make_form_panel,
    make_run_panel,
    make_video_table,
)
from app.batch.selection.panel import SelectionPanel, make_selection_panel, wire_selection_panel, with_filter
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.handlers import AppliedPoint, SweepView
from app.batch.sweeps.panel import make_sweep_panel
from app.player.context import AppContext
from app.player.downloads import SAVE_JS, make_download
from app.widgets import AT_ONCE, PREVIEW_THRESHOLDS_JS, make_status_line

POLL_INTERVAL_S: Final = 1.0
"""Interval at which a window polls the state of its run, while the tab is open."""


class Layout(NamedTuple):
    """The components of the tab."""

    form: FormPanel
    run: RunPanel
    selection: SelectionPanel
    slice_scores: Any
    sweep: SweepView
    compare: ComparePanel
    compare_tab: Any
    view: BatchView


def make_batch_tab(
    context: AppContext,
    batches: BatchContext,
    *,
    live: Any,
    player: Sequence[Any],
    ends: Mapping[str, Any],
    rooms: Any,
    here: Any,
    elsewhere: Sequence[Any],
) -> None:
    """Lay out the tab, inside ``here``, and wire it.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        live: State of the run in the player of this window.
        player: Outputs of the player, in the order of ``saved.open_video``; the last two are its threshold sliders.
        ends: Arguments of events that show another video, such as the events to cancel.
        rooms: The ``gr.Tabs`` of the page.
        here: The ``gr.Tab`` of this tab.
        elsewhere: The remaining ``gr.Tab`` components.
    """
    layout = _make_layout(context, batches)
    form, run, selection, view = layout.form, layout.run, layout.selection, layout.view
    to_player: dict[str, Any] = {"outputs": [*player, rooms], **ends}
    filtered = partial(with_filter, batches)
    _wire_form(batches, form, run, view.status)
    _wire_runs(filtered, form, run, selection, view, here=here, elsewhere=elsewhere)
    here.select(partial(adding.list_splits, batches), None, form.split, **AT_ONCE)
    _wire_selection(context, batches, filtered, run, selection, view, layout.slice_scores)
    _wire_downloads(batches, run)
    _wire_best_point(form, layout.sweep, sliders=list(player[-2:]))

    def open_video(live: Any, name: Any, event: gr.SelectData) -> Any:
        return saved.open_video(context, batches, live, name, event)

    view.videos.select(open_video, [live, run.runs], **to_player)
    _wire_compare(context, batches, layout, live=live, to_player=to_player)


def _make_layout(context: AppContext, batches: BatchContext) -> Layout:
    shown = gr.State(ShownRun())
    with gr.Row():
        form = make_form_panel(batches)
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            status = make_status_line("batch_status")
            progress = gr.HTML(elem_id="batch_progress", padding=False)
            run = make_run_panel()
            with gr.Tabs():
                with gr.Tab("Videos"):
                    selection = make_selection_panel()
                    videos = make_video_table()
                    slice_scores = gr.HTML(elem_id="slice_scores", padding=False)
                with gr.Tab("Scores"):
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with gr.Tab("Charts"), gr.Row():
                    charts = make_charts()
                with gr.Tab("Thresholds") as sweep_tab:
                    sweep = make_sweep_panel(
                        context, batches, runs=run.runs, shown=shown, devices=form.devices, here=sweep_tab
                    )
                with gr.Tab("Compare") as compare_tab:
                    compare = make_compare_panel()
    view = BatchView(
        shown=shown,
        status=status,
        progress=progress,
        runs=run.runs,
        videos=videos,
        corpus=corpus,
        **charts,
        cancel=run.cancel,
        use=run.use,
        **run.downloads,
        origin=run.origin,
        timer=gr.Timer(POLL_INTERVAL_S, active=False),
        problem=form.problem,
    )
    return Layout(
        form=form,
        run=run,
        selection=selection,
        slice_scores=slice_scores,
        sweep=sweep,
        compare=compare,
        compare_tab=compare_tab,
        view=view,
    )


def _wire_form(batches: BatchContext, form: FormPanel, run: RunPanel, status: Any) -> None:
    """Add splits, and fill the form with the settings of the shown run."""
    added = [status, form.split]
    form.path.submit(partial(adding.add_path, batches), form.path, added, **AT_ONCE)
    form.split_file.upload(partial(adding.add_file, batches), form.split_file, added, **AT_ONCE)
    filled = FilledForm(
        status=status,
        split=form.split,
        checkpoint=form.checkpoint,
        speak=form.speak,
        update=form.update,
        devices=form.devices,
        live=form.teacher_forced,
    )
    run.use.click(partial(use_settings, batches), [run.runs, form.devices], list(filled), **AT_ONCE)


def _wire_runs(
    filtered: Callable[..., Any],
    form: FormPanel,
    run: RunPanel,
    selection: SelectionPanel,
    view: BatchView,
    *,
    here: Any,
    elsewhere: Sequence[Any],
) -> None:
    """Start, cancel and show runs; poll while the tab is open."""
    outputs = list(view)
    filters = [run.order, selection.only, selection.part]
    form.start.click(filtered(handlers.start), [*form.entries, *filters], outputs, **AT_ONCE)
    run.cancel.click(filtered(handlers.cancel), [run.runs, *filters], outputs, **AT_ONCE)
    changes = [run.runs.select, run.order.select, selection.only.input, selection.part.input]
    gr.on(changes, filtered(handlers.show), [run.runs, *filters], outputs, **AT_ONCE)
    view.timer.tick(filtered(handlers.tick), [view.shown, run.runs, *filters], outputs, **AT_ONCE)
    here.select(filtered(handlers.enter), [run.runs, *filters], outputs, **AT_ONCE)
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, view.timer, **AT_ONCE)


def _wire_selection(
    context: AppContext,
    batches: BatchContext,
    filtered: Callable[..., Any],
    run: RunPanel,
    selection: SelectionPanel,
    view: BatchView,
    slice_scores: Any,
) -> None:
    """Select videos; a newly chosen run is shown with all its videos."""

    def show_all(*inputs: Any) -> Any:
        return filtered(handlers.show)(*inputs)._replace(runs=gr.skip())

    offered = wire_selection_panel(context, batches, selection, runs=run.runs, result=slice_scores)
    offered.then(show_all, [run.runs, run.order, selection.only, selection.part], list(view), **AT_ONCE)


def _wire_downloads(batches: BatchContext, run: RunPanel) -> None:
    file = make_download()
    for table in TABLES:

        def write(name: Any, table: str = table) -> Any:
            yield from download(batches, name, table)

        written = run.downloads[table.replace(".", "_")].click(write, run.runs, file, **AT_ONCE)
        written.then(None, file, None, js=SAVE_JS, api_visibility="private")


def _wire_best_point(form: FormPanel, sweep: SweepView, *, sliders: Sequence[Any]) -> None:
    """Set the thresholds of the form and of the player to the best point of the sweep."""
    player_speak, player_update = sliders
    applied = AppliedPoint(
        speak=form.speak,
        update=form.update,
        player_speak=player_speak,
        player_update=player_update,
        said=sweep.said,
    )
    applying = sweep.apply.click(sweeping.apply_best, [sweep.best, sweep.said], list(applied), **AT_ONCE)
    applying.then(None, list(sliders), None, js=PREVIEW_THRESHOLDS_JS, api_visibility="private")


def _wire_compare(
    context: AppContext, batches: BatchContext, layout: Layout, *, live: Any, to_player: Mapping[str, Any]
) -> None:
    """Compare the shown run with a second run; a click on a row opens both in the player."""
    panel, runs = layout.compare, layout.run.runs

    def open_both(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return saved.open_both(context, batches, live, compared, event)

    def open_turn(live: Any, compared: Any, event: gr.SelectData) -> Any:
        return saved.open_turn(context, batches, live, compared, event)

    view = CompareView(
        compared=panel.compared,
        said=panel.said,
        failures=panel.failures,
        scores=panel.scores,
        videos=panel.videos,
        turns=panel.turns,
    )
    list_other_runs = partial(comparing.list_other_runs, batches)
    gr.on([layout.compare_tab.select, runs.select], list_other_runs, [runs, panel.other], panel.other, **AT_ONCE)
    gr.on(
        [panel.other.select, runs.select],
        partial(comparing.compare, context, batches),
        [runs, panel.other, panel.wrong_in, panel.metric],
        list(view),
        concurrency_limit=None,
        api_visibility="private",
    )
    sort_videos = partial(comparing.sort_videos, batches)
    panel.metric.select(sort_videos, [panel.compared, panel.metric], panel.videos, **AT_ONCE)
    choose_turns = partial(comparing.choose_turns, batches)
    panel.wrong_in.select(choose_turns, [panel.compared, panel.wrong_in], panel.turns, **AT_ONCE)
    panel.videos.select(open_both, [live, panel.compared], **to_player)
    panel.turns.select(open_turn, [live, panel.compared], **to_player)

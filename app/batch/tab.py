"""Layout and wiring of the batch tab. The modules beside it and below lay out and wire its parts.

They take ``runs``, the dropdown of the shown run; ``shown`` or ``batch``, the state ``ShownRun`` of the window; and
``here``, the ``gr.Tab`` of the part, whose selection shows the present state.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.compare import make_compare_panel
from stepscope.app.batch.leaderboard import make_leaderboard_panel
from stepscope.app.batch.new_run.form import FormPanel, make_form_panel
from stepscope.app.batch.new_run.start import check_files, import_files, start
from stepscope.app.batch.protocols import make_protocols_panel
from stepscope.app.batch.publishing import make_publish_panel
from stepscope.app.batch.run_list import make_run_list_panel
from stepscope.app.batch.runs import handlers
from stepscope.app.batch.runs.handlers import BatchView, ShownRun
from stepscope.app.batch.runs.panel import make_charts_panel, make_run_panel, make_video_table
from stepscope.app.batch.search import make_search_panel
from stepscope.app.batch.selection import (
    SelectionPanel,
    choose_kind,
    make_selection_panel,
    with_filter,
)
from stepscope.app.batch.sweeps.panel import make_sweep_panel
from stepscope.app.batch.training import make_training_panel
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_tab, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.opening import InPlayer, open_video, read_step
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext

POLL_INTERVAL_S: Final = 1.0

FOLD_FORM_JS: Final = """(name) => {
    document.dispatchEvent(new CustomEvent('stepscope:studied', {detail: {new_run: name ? 'folded' : 'open'}}));
}"""
"""Script: the form is open without a run to show."""


def make_batch_tab(
    context: AppContext,
    batches: BatchContext,
    in_player: InPlayer,
    *,
    here: Any,
    elsewhere: tuple[Any, ...],
) -> gr.Tabs:
    """Lay out and wire the tab inside its ``gr.Tab`` ``here``; return its views. ``elsewhere`` are the other tabs."""
    shown, run = gr.State(ShownRun()), make_run_panel(batches)
    runs, status = run.runs, run.status
    of_run: dict[str, Any] = {"runs": runs, "in_player": in_player}
    ending = {"batch": shown, **of_run}  # shown again once the run has ended
    with gr.Row():
        form = make_form_panel(batches, runs=runs, use=run.use, status=status, here=here)
        with gr.Column(scale=11, min_width=640, elem_classes="work"):
            publish = gr.Column(visible=False, elem_id="publish")
            with gr.Tabs(elem_id="batch_views") as views:
                with make_tab("Videos"):
                    scored = gr.HTML(elem_id="slice_scores", padding=False, render=False)
                    selection, offered = make_selection_panel(context, batches, runs=runs, result=scored)
                    videos = _make_videos(context, batches, in_player, [runs, *selection])
                    scored.render()
                with make_tab("Search") as tab:
                    make_search_panel(context, batches, part=selection.part, views=views, here=tab, **of_run)
                with make_tab("Scores"):
                    corpus = gr.HTML(elem_id="corpus", padding=False)
                with make_tab("Protocols") as tab:
                    make_protocols_panel(context, batches, here=tab, **ending)
                with make_tab("Charts") as tab:
                    charts = make_charts_panel(batches, runs=runs, shown=shown, here=tab)
                with make_tab("Thresholds") as tab:
                    player: Any = in_player.view.thresholds
                    places = {"form": (form.speak, form.update), "player": player, "devices": form.devices}
                    make_sweep_panel(context, batches, runs=runs, shown=shown, here=tab, **places)
                with make_tab("Compare") as tab:
                    make_compare_panel(context, batches, here=tab, **ending)
                with make_tab("Leaderboard") as tab:
                    opened = make_leaderboard_panel(context, batches, runs=runs, views=views, here=tab)
                with make_tab("Runs") as tab:
                    listed = make_run_list_panel(batches, runs=runs, here=tab)
                with make_tab("Training") as tab:
                    make_training_panel(context, batches, here=tab, batch_tab=here, elsewhere=elsewhere)
    make_publish_panel(context, batches, publish, run.publish, runs=runs, selection=selection)
    view = BatchView(
        shown=shown,
        status=status,
        progress=run.progress,
        runs=runs,
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
    _wire_runs(batches, form, selection, view, here=here, elsewhere=elsewhere)
    in_player.wire(charts["videos"].pick, partial(open_video, context, batches), runs)
    picked = wire(charts["failures"].pick, partial(choose_kind, batches), runs, (selection.only, views), **AT_ONCE)

    def show_all(*inputs: Any) -> BatchView:
        return handlers.show(*inputs)._replace(runs=gr.skip())

    chosen = (
        *((event, show_all) for event in (offered, picked)),
        *((event, handlers.show) for event in (opened, *listed)),
    )
    for event, show in chosen:
        wire(event.then, with_filter(batches, show), [runs, *selection], view, **AT_ONCE)
    return views


def _make_videos(context: AppContext, batches: BatchContext, in_player: InPlayer, filtered: list[Any]) -> Any:
    """Return the table of videos, which the player opens; ``filtered`` are the shown run and the selection."""

    def step(event: gr.EventData, *inputs: Any) -> PlayerView:
        view: PlayerView = with_filter(batches, partial(handlers.step_video, context, by=read_step(event)))(*inputs)
        return view

    videos = make_video_table()
    in_player.wire(videos.select, partial(open_video, context, batches), filtered[0])
    in_player.wire_steps("videos", step, [in_player.view.buttons.live, *filtered], in_player.view)
    return videos


def _wire_runs(
    batches: BatchContext,
    form: FormPanel,
    selection: SelectionPanel,
    view: BatchView,
    *,
    here: Any,
    elsewhere: tuple[Any, ...],
) -> None:
    def wire_view(event: Callable[..., Any], handler: Callable[..., Any], *inputs: Any) -> None:
        """Register a handler of ``view`` that takes a ``VideoFilter`` last."""
        wire(event, with_filter(batches, handler), [*inputs, *selection], view, **AT_ONCE)

    def enter(request: gr.Request, name: Any, *filters: Any) -> Any:
        """Show the chosen run, else that of the address."""
        linked = request.query_params.get("shown")
        return with_filter(batches, handlers.enter)(
            name or (linked if linked in batches.run_names() else None), *filters
        )

    wire_view(form.start.click, start, *form.entries)
    checked = (form.problem, form.rule.signal)
    wire(form.results.upload, partial(check_files, batches), [form.split, form.results], checked, **AT_ONCE)
    wire_view(form.import_results.click, import_files, form.split, form.results, form.name, *form.rule)
    wire_view(view.cancel.click, handlers.cancel, view.runs)
    wire_view(view.score.click, handlers.score, view.runs)
    changes = [view.runs.select, selection.order.select, selection.only.input, selection.part.input]
    wire(partial(gr.on, changes), with_filter(batches, handlers.show), [view.runs, *selection], view, **LATEST)
    wire_view(view.timer.tick, handlers.tick, view.shown, view.progress, view.runs)
    entered = wire(here.select, enter, [view.runs, *selection], view, **AT_ONCE)
    entered.then(None, view.runs, None, js=FOLD_FORM_JS, api_visibility="private")
    gr.on([tab.select for tab in elsewhere], handlers.leave, None, view.timer, **AT_ONCE)

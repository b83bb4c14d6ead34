"""Layout and wiring of the tab *Thresholds*. The handlers are in ``app.batch.sweeps.handlers``."""

from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.batch.file_rows import make_figure_row
from stepscope.app.batch.sweeps import handlers as sweeping
from stepscope.app.batch.sweeps.folders import download_sweep
from stepscope.app.batch.sweeps.handlers import (
    RECOMMENDED,
    AppliedPoint,
    SweepView,
    choices,
)
from stepscope.app.controls.cancellable import WorkButtons, wire_work
from stepscope.app.controls.widgets import (
    AT_ONCE,
    LATEST,
    PREVIEW_THRESHOLDS_JS,
    SWEEP_QUEUE,
    make_status_line,
    wire,
    wire_download,
)
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import SWEEP_CHARTS
from stepscope.app.player.component import make_chart
from stepscope.app.window.context import AppContext
from stepscope.eval.sweeps.grid import GRID_SIZES


def make_sweep_panel(
    context: AppContext,
    batches: BatchContext,
    *,
    runs: Any,
    shown: Any,
    devices: Any,
    here: Any,
    form: tuple[Any, Any],
    player: tuple[Any, Any],
) -> None:
    """Lay out and wire the tab.

    A sweep runs on the first of ``devices``. ``form`` and ``player`` are the sliders that a point sets.
    """
    with gr.Row():
        metric = gr.Dropdown(
            choices(None),
            value=RECOMMENDED,
            label="Best by",
            interactive=True,
            scale=3,
            min_width=300,
            elem_id="metric",
        )
        signals = gr.Dropdown(
            [], label="Signals", visible=False, interactive=True, scale=3, min_width=200, elem_id="sweep_signals"
        )
        size = gr.Dropdown(list(GRID_SIZES), value=GRID_SIZES[1], label="Thresholds per axis", scale=2, elem_id="size")
        with gr.Column(scale=4, min_width=376), gr.Row():  # the buttons stay together in a narrow window
            with gr.Column(min_width=180):
                exact = gr.Button("Run each point", size="sm", elem_id="exact")
                cancel = gr.Button("Cancel", variant="stop", size="sm", interactive=False, elem_id="cancel_sweep")
            with gr.Column(min_width=180):
                apply = gr.Button("Use the best point", size="sm", interactive=False, elem_id="apply")
                with gr.Row():
                    table = gr.DownloadButton(
                        "sweep.csv", size="sm", min_width=80, interactive=False, elem_id="sweep_csv"
                    )
                    whole = gr.DownloadButton("sweep.json", size="sm", min_width=80, interactive=False)
    progress = gr.HTML(elem_id="sweep_progress", padding=False)
    swept = make_status_line("swept")
    search = gr.HTML(elem_id="swept_search", padding=False)
    with gr.Row(elem_classes=["charts", "two-charts"]):
        heat, through = (make_chart(name, hint="Click a point to use its thresholds") for name in ("heat", "through"))
    chosen, titles = [runs, metric, size, signals], {name: chart.title for name, chart in SWEEP_CHARTS.items()}
    make_figure_row(titles, partial(sweeping.draw_sweep_chart, batches), chosen, elem_id="sweep")
    for button, name in ((table, "sweep.csv"), (whole, "sweep.json")):
        wire_download(button.click, partial(download_sweep, batches, name), [runs, size, signals])
    view = SweepView(swept, search, heat, through, gr.State(None), apply, metric, table, whole, signals)
    buttons = WorkButtons(start=exact, cancel=cancel, progress=progress)
    enter, show = partial(sweeping.enter_sweep, batches), partial(sweeping.show_sweep, batches)
    wire(partial(gr.on, [here.select, shown.change]), enter, chosen, (view, size), **LATEST)
    wire(partial(gr.on, [metric.select, size.select, signals.select]), show, chosen, view, **LATEST)
    live, run = gr.State(None), partial(sweeping.run_points, context, batches)
    gr.on([here.select, shown.change], partial(sweeping.offer_points, batches), [live, runs], exact, **LATEST)
    options = {"cancelled": sweeping.CANCELLED, **SWEEP_QUEUE}
    for ended in wire_work(buttons, run, [live, runs, size, devices], buttons, **options):
        wire(ended.then, show, chosen, view, **AT_ONCE)
    _wire_points(view, runs=runs, form=form, player=player)


def _wire_points(view: SweepView, *, runs: Any, form: tuple[Any, Any], player: tuple[Any, Any]) -> None:
    named = gr.Textbox(visible="hidden")
    applied, inputs = AppliedPoint(*form, *player, said=view.said, named=named), [view.best, view.said, runs]
    applying = [
        wire(view.apply.click, sweeping.apply_best, inputs, applied, **AT_ONCE),
        *(wire(chart.pick, sweeping.apply_picked, inputs, applied, **AT_ONCE) for chart in (view.heat, view.curves)),
    ]
    for event in applying:
        event.then(None, [*player, named], None, js=PREVIEW_THRESHOLDS_JS, api_visibility="private")

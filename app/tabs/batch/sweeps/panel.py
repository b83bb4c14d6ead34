"""Layout and wiring of the tab *Thresholds*. The handlers are in ``app.tabs.batch.sweeps.handlers``."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import (
    AT_ONCE,
    LATEST,
    PREVIEW_THRESHOLDS_JS,
    SWEEP_QUEUE,
    make_download,
    make_status_line,
    save_after,
    wire,
)
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import SWEEP_CHARTS
from stepscope.app.tabs.batch.file_rows import FigureRow, make_figure_row, wire_figure_row
from stepscope.app.tabs.batch.sweeps import handlers as sweeping
from stepscope.app.tabs.batch.sweeps.folders import download_sweep
from stepscope.app.tabs.batch.sweeps.handlers import (
    RECOMMENDED,
    AppliedPoint,
    BegunSweep,
    EnteredSweep,
    SweepButtons,
    SweepView,
    choices,
)
from stepscope.app.web.component import make_chart
from stepscope.eval.sweeps.grid import GRID_SIZES


class SweepPanel(NamedTuple):
    """The components of the tab."""

    size: Any
    view: SweepView
    buttons: SweepButtons
    figures: FigureRow
    live: Any
    """State: the handle of the sweep that this window runs."""


def make_sweep_panel() -> SweepPanel:
    """Lay out the tab."""
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
    figures = make_figure_row({name: chart.title for name, chart in SWEEP_CHARTS.items()}, elem_id="sweep")
    view = SweepView(
        said=swept,
        search=search,
        heat=heat,
        curves=through,
        best=gr.State(None),
        apply=apply,
        metric=metric,
        csv=table,
        json=whole,
        signals=signals,
    )
    buttons = SweepButtons(exact=exact, cancel=cancel, progress=progress)
    return SweepPanel(size=size, view=view, buttons=buttons, figures=figures, live=gr.State(None))


def wire_sweep_panel(
    context: AppContext, batches: BatchContext, panel: SweepPanel, *, runs: Any, shown: Any, devices: Any, here: Any
) -> None:
    """Wire the tab.

    ``runs`` is the dropdown of the shown run. The points are updated with the ``ShownRun`` ``shown``, so they appear
    when the run ends. A sweep runs on the first of ``devices``.
    """
    view, buttons, live, size = panel.view, panel.buttons, panel.live, panel.size
    chosen = [runs, view.metric, size, view.signals]
    enter, show = partial(sweeping.enter_sweep, batches), partial(sweeping.show_sweep, batches)
    entered, begun = EnteredSweep(view=view, size=size), BegunSweep(live=live, buttons=buttons)
    wire(partial(gr.on, [here.select, shown.change]), enter, chosen, entered, **LATEST)
    gr.on([here.select, shown.change], partial(sweeping.offer_points, batches), [live, runs], buttons.exact, **LATEST)
    wire(partial(gr.on, [view.metric.select, size.select, view.signals.select]), show, chosen, view, **LATEST)
    beginning = wire(buttons.exact.click, sweeping.begin_sweep, None, begun, **AT_ONCE)
    run_points, inputs = partial(sweeping.run_points, context, batches), [live, runs, size, devices]
    running = wire(beginning.then, run_points, inputs, buttons, **SWEEP_QUEUE, show_progress="hidden")
    wire(running.then, show, chosen, view, **AT_ONCE)
    halted = wire(buttons.cancel.click, sweeping.halt_sweep, live, buttons, **AT_ONCE)
    cancelled = wire(halted.then, sweeping.cancel_sweep, live, buttons, cancels=[running], **AT_ONCE)
    wire(cancelled.then, show, chosen, view, **AT_ONCE)


def wire_sweep_files(batches: BatchContext, panel: SweepPanel, *, runs: Any, status: Any) -> None:
    """Save the tables and the charts of the shown points; problems of charts are shown in ``status``."""
    view, size, file = panel.view, panel.size, make_download()
    for button, name in ((view.csv, "sweep.csv"), (view.json, "sweep.json")):
        save_after(
            button.click(partial(download_sweep, batches, name), [runs, size, view.signals], file, **AT_ONCE), file
        )
    wire_figure_row(
        panel.figures,
        partial(sweeping.draw_sweep_chart, batches),
        [runs, view.metric, size, view.signals],
        status=status,
    )


def wire_points(panel: SweepPanel, *, runs: Any, form: tuple[Any, Any], player: tuple[Any, Any]) -> None:
    """Set the speak and update sliders of the form and of the player to the best or a picked point of the sweep.

    Thresholds of named signals are previewed in the player. ``runs`` is the dropdown of the shown run.
    """
    view, named = panel.view, gr.Textbox(visible="hidden")
    applied, inputs = AppliedPoint(*form, *player, said=view.said, named=named), [view.best, view.said, runs]
    applying = [
        wire(view.apply.click, sweeping.apply_best, inputs, applied, **AT_ONCE),
        *(wire(chart.pick, sweeping.apply_picked, inputs, applied, **AT_ONCE) for chart in (view.heat, view.curves)),
    ]
    for event in applying:
        event.then(None, [*player, named], None, js=PREVIEW_THRESHOLDS_JS, api_visibility="private")

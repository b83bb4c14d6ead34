"""Layout and wiring of the tab *Thresholds*. The handlers are in ``app.batch.sweeps.handlers``."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from app.batch.context import BatchContext
from app.batch.runs.charts import HEAD_COLOURS, PLOT
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.folders import GRID_SIZES, download_sweep
from app.batch.sweeps.handlers import AppliedPoint, BegunSweep, EnteredSweep, SweepButtons, SweepView
from app.batch.sweeps.render import RECOMMENDED, choices
from app.player.context import AppContext
from app.player.downloads import SAVE_JS, make_download
from app.widgets import AT_ONCE, PREVIEW_THRESHOLDS_JS, SWEEP_QUEUE, make_status_line, wire


class SweepPanel(NamedTuple):
    """The components of the tab."""

    size: Any
    view: SweepView
    buttons: SweepButtons
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
    with gr.Row():
        heat = gr.HTML(elem_id="heat", padding=False)
        through = gr.LinePlot(
            x="threshold", y="score", color="head", color_map=HEAD_COLOURS, x_lim=[0, 1],
            title="Through the chosen point", tooltip="all", **{**PLOT, "height": 360},
        )  # fmt: skip
    view = SweepView(
        said=swept, heat=heat, curves=through, best=gr.State(None), apply=apply, metric=metric, csv=table, json=whole
    )
    buttons = SweepButtons(exact=exact, cancel=cancel, progress=progress)
    return SweepPanel(size=size, view=view, buttons=buttons, live=gr.State(None))


def wire_sweep_panel(
    context: AppContext, batches: BatchContext, panel: SweepPanel, *, runs: Any, shown: Any, devices: Any, here: Any
) -> None:
    """Wire the tab.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The components.
        runs: The dropdown of the shown run.
        shown: The ``ShownRun`` of the window; the points are updated with it, so they appear when the run ends.
        devices: The devices; a sweep runs on the first.
        here: The ``gr.Tab`` of this tab.
    """
    view, buttons, live, size = panel.view, panel.buttons, panel.live, panel.size
    chosen = [runs, view.metric, size]
    enter, show = partial(sweeping.enter_sweep, batches), partial(sweeping.show_sweep, batches)
    entered, begun = EnteredSweep(view=view, size=size), BegunSweep(live=live, buttons=buttons)
    wire(partial(gr.on, [here.select, shown.change]), enter, chosen, entered, **AT_ONCE)
    wire(partial(gr.on, [view.metric.select, size.select]), show, chosen, view, **AT_ONCE)
    beginning = wire(buttons.exact.click, sweeping.begin_sweep, None, begun, **AT_ONCE)
    run_points, inputs = partial(sweeping.run_points, context, batches), [live, runs, size, devices]
    running = wire(beginning.then, run_points, inputs, buttons, **SWEEP_QUEUE, show_progress="hidden")
    wire(running.then, show, chosen, view, **AT_ONCE)
    halted = wire(buttons.cancel.click, sweeping.halt_sweep, live, buttons, **AT_ONCE)
    cancelled = wire(halted.then, sweeping.cancel_sweep, live, buttons, cancels=[running], **AT_ONCE)
    wire(cancelled.then, show, chosen, view, **AT_ONCE)
    file = make_download()
    for button, name in ((view.csv, "sweep.csv"), (view.json, "sweep.json")):
        asked = button.click(partial(_write, batches, name), [runs, size], file, **AT_ONCE)
        asked.success(None, file, None, js=SAVE_JS, api_visibility="private")


def wire_best_point(panel: SweepPanel, *, form: tuple[Any, Any], player: tuple[Any, Any]) -> None:
    """Set the speak and update sliders of the form and of the player to the best point of the sweep."""
    applied = AppliedPoint(*form, *player, said=panel.view.said)
    inputs = [panel.view.best, panel.view.said]
    applying = wire(panel.view.apply.click, sweeping.apply_best, inputs, applied, **AT_ONCE)
    applying.then(None, list(player), None, js=PREVIEW_THRESHOLDS_JS, api_visibility="private")


def _write(batches: BatchContext, table: str, name: str | None, size: int) -> Iterator[Any]:
    yield from download_sweep(batches, name, size, table)

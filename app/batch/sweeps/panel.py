"""Layout and wiring of the tab *Thresholds*. The handlers are in ``app.batch.sweeps.handlers``."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from app.batch.charts import HEAD_COLOURS, PLOT
from app.batch.context import BatchContext
from app.batch.sweeps import handlers as sweeping
from app.batch.sweeps.folders import GRID_SIZES, download_sweep
from app.batch.sweeps.handlers import SweepButtons, SweepView
from app.batch.sweeps.render import RECOMMENDED, choices
from app.player.context import AppContext
from app.player.downloads import SAVE_JS, make_download
from app.widgets import AT_ONCE, SWEEP_QUEUE, make_status_line


def make_sweep_panel(
    context: AppContext, batches: BatchContext, *, runs: Any, shown: Any, devices: Any, here: Any
) -> SweepView:
    """Lay out the tab, inside ``here``, and wire it.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        runs: The dropdown of the shown run.
        shown: The ``ShownRun`` of the window; the points are updated with it, so they appear when the run ends.
        devices: The devices; a sweep runs on the first.
        here: The ``gr.Tab`` of this tab.
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
    best = gr.State(None)
    live = gr.State(None)
    with gr.Row():
        heat = gr.HTML(elem_id="heat", padding=False)
        through = gr.LinePlot(
            x="threshold", y="score", color="head", color_map=HEAD_COLOURS, x_lim=[0, 1],
            title="Through the chosen point", tooltip="all", **{**PLOT, "height": 360},
        )  # fmt: skip
    view = SweepView(
        said=swept, heat=heat, curves=through, best=best, apply=apply, metric=metric, csv=table, json=whole
    )
    chosen, outputs = [runs, metric, size], list(view)
    buttons = list(SweepButtons(exact=exact, cancel=cancel, progress=progress))

    def run_points(*inputs: Any) -> Iterator[Any]:
        yield from sweeping.run_points(context, batches, *inputs)

    show = partial(sweeping.show_sweep, batches)
    enter = partial(sweeping.enter_sweep, batches)
    gr.on([here.select, shown.change], enter, chosen, [*outputs, size], **AT_ONCE)
    gr.on([metric.select, size.select], show, chosen, outputs, **AT_ONCE)
    running = exact.click(sweeping.begin_sweep, None, [live, *buttons], **AT_ONCE).then(
        run_points, [live, runs, size, devices], buttons, **SWEEP_QUEUE, show_progress="hidden"
    )
    running.then(show, chosen, outputs, **AT_ONCE)
    file = make_download()
    for button, name in ((table, "sweep.csv"), (whole, "sweep.json")):
        asked = button.click(partial(_write, batches, name), [runs, size], file, **AT_ONCE)
        asked.success(None, file, None, js=SAVE_JS, api_visibility="private")
    halted = cancel.click(sweeping.halt_sweep, live, buttons, **AT_ONCE)
    cancelled = halted.then(sweeping.cancel_sweep, live, buttons, cancels=[running], **AT_ONCE)
    cancelled.then(show, chosen, outputs, **AT_ONCE)
    return view


def _write(batches: BatchContext, table: str, name: str | None, size: int) -> Iterator[Any]:
    yield from download_sweep(batches, name, size, table)

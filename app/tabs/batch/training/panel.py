"""Layout and wiring of the Training tab."""

from functools import partial
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.training import handlers
from stepscope.app.tabs.batch.training.handlers import TrainingView
from stepscope.app.tabs.batch.training.table import HEADERS
from stepscope.app.web.chart import make_chart

FOLLOW_INTERVAL_S: Final = 3.0
"""Interval at which an unfinished training run is read again, while the batch tab is open."""


class TrainingPanel(NamedTuple):
    """The choice of a split or a training run, and the outputs."""

    source: Any
    view: TrainingView


def make_training_panel() -> TrainingPanel:
    """Lay out the tab."""
    source = gr.Dropdown([], label="Training run, or split to check", interactive=True, elem_id="training_source")
    said = make_status_line("training_said")
    with gr.Row(elem_classes=["charts", "two-charts"], visible=False, elem_id="training_curves") as curves:
        losses, validation = (make_chart(f"training_{name}") for name in ("losses", "validation"))
    clips = gr.Dataframe(
        headers=list(HEADERS),
        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
        interactive=False,
        max_height=420,
        show_search="search",
        label="Clips",
        column_widths=["130px", *["77px"] * (len(HEADERS) - 2), "165px"],  # its longest word; a narrow page scrolls
        wrap=True,
        elem_id="training_clips",
    )
    timer = gr.Timer(FOLLOW_INTERVAL_S, active=False)
    view = TrainingView(
        shown=gr.State(None), said=said, clips=clips, timer=timer, curves=curves, losses=losses, validation=validation
    )
    return TrainingPanel(source=source, view=view)


def wire_training_panel(
    context: AppContext,
    batches: BatchContext,
    panel: TrainingPanel,
    *,
    here: Any,
    batch_tab: Any,
    elsewhere: tuple[Any, ...],
) -> None:
    """Wire the tab.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The components.
        here: The ``gr.Tab`` of this tab.
        batch_tab: The ``gr.Tab`` around it.
        elsewhere: The other ``gr.Tab`` components of the page; selecting one ends the updates.
    """
    view, source = panel.view, panel.source
    show = partial(handlers.show_training, context, batches)
    listed = here.select(partial(handlers.list_sources, batches), source, source, **AT_ONCE)
    wire(listed.then, show, source, view, **AT_ONCE)
    wire(source.select, show, source, view, **LATEST)
    wire(view.timer.tick, partial(handlers.follow_training, batches), view.shown, view, **AT_ONCE)
    wire(batch_tab.select, partial(handlers.follow_again, batches), view.shown, view, **AT_ONCE)
    gr.on([tab.select for tab in elsewhere], lambda: gr.Timer(active=False), None, view.timer, **AT_ONCE)

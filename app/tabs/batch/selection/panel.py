"""Layout and wiring of the panel that selects videos. The handlers are in ``app.tabs.batch.selection.handlers``."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import AT_ONCE, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.selection import handlers as choosing
from stepscope.app.tabs.batch.selection.handlers import SavedSlice, SelectionChoices


class SelectionPanel(NamedTuple):
    """The inputs that select videos; ``called`` is the name of a new slice."""

    only: Any
    part: Any
    called: Any
    save: Any
    score: Any


def make_selection_panel() -> SelectionPanel:
    """Lay out the panel."""
    with gr.Row():
        only = gr.Dropdown([], value=[], multiselect=True, label="Only videos with", scale=4, elem_id="only")
        part = gr.Dropdown([choosing.ALL_VIDEOS], value=choosing.ALL_VIDEOS, label="Slice", scale=2, elem_id="slice")
        called = gr.Textbox(label="Name of a new slice", placeholder="name", max_lines=1, scale=2, elem_id="slice_name")
        with gr.Column(scale=2, min_width=150):
            save = gr.Button("Save as slice", size="sm", elem_id="save_slice")
            score = gr.Button("Score separately", size="sm", elem_id="score_slice")
    return SelectionPanel(only=only, part=part, called=called, save=save, score=score)


def wire_selection_panel(
    context: AppContext, batches: BatchContext, panel: SelectionPanel, *, runs: Any, result: Any
) -> Any:
    """Wire the panel.

    Args:
        context: Model and videos of the page.
        batches: Runs, splits and jobs.
        panel: The panel.
        runs: The dropdown of the shown run.
        result: The output of status lines and scores.

    Returns:
        The event after which a newly chosen run is to be shown with all its videos.
    """

    def score(*inputs: Any) -> Iterator[Any]:
        yield from choosing.score_chosen(context, batches, *inputs)

    chosen = [runs, panel.only, panel.part]
    choices = SelectionChoices(only=panel.only, part=panel.part)
    offered = wire(runs.change, partial(choosing.offer_again, batches), runs, choices, **AT_ONCE)
    runs.change(lambda: "", None, result, **AT_ONCE)  # the scores of the run before
    focused = partial(gr.on, [panel.only.focus, panel.part.focus])
    wire(focused, partial(choosing.offer, batches), runs, choices, **AT_ONCE)
    saved = SavedSlice(part=panel.part, result=result)
    wire(panel.save.click, partial(choosing.save_slice, batches), [*chosen, panel.called], saved, **AT_ONCE)
    panel.score.click(score, chosen, result, concurrency_id="scores", concurrency_limit=1, api_visibility="private")
    return offered


def with_filter(batches: BatchContext, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler whose last four inputs, a run, its order, traits and slice, become a run and a ``VideoFilter``.

    Example: inputs ``(seen, name, order, only, part)`` call ``work(batches, seen, name, VideoFilter(...))``.
    """

    def run(*inputs: Any) -> Any:
        *rest, name, order, only, part = inputs
        return work(batches, *rest, name, choosing.make_filter(batches, name, order, only, part))

    return run

"""The panel that selects a run's videos: layout and wiring. Its handlers are in ``app.batch.selection.handlers``."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from app.batch.context import BatchContext
from app.batch.selection import handlers as choosing
from app.player.context import Bench
from app.widgets import AT_ONCE


class SelectionPanel(NamedTuple):
    """What chooses videos, beside their order."""

    only: Any
    part: Any
    called: Any
    save: Any
    score: Any


def make_selection_panel() -> SelectionPanel:
    """Lay out what chooses videos."""
    with gr.Row():
        only = gr.Dropdown([], value=[], multiselect=True, label="Only videos with", scale=4, elem_id="only")
        part = gr.Dropdown([choosing.ALL_VIDEOS], value=choosing.ALL_VIDEOS, label="Slice", scale=2, elem_id="slice")
        called = gr.Textbox(label="Keep these as slice", placeholder="name", max_lines=1, scale=2, elem_id="slice_name")
        with gr.Column(scale=2, min_width=150):
            save = gr.Button("Keep as slice", size="sm", elem_id="save_slice")
            score = gr.Button("Score these alone", size="sm", elem_id="score_slice")
    return SelectionPanel(only=only, part=part, called=called, save=save, score=score)


def wire_selection_panel(bench: Bench, batches: BatchContext, panel: SelectionPanel, *, runs: Any, said: Any) -> Any:
    """Wire it; ``runs`` says which run is shown, ``said`` takes words and scores.

    Returns the event after which all videos of a run that was just chosen are to be shown.
    """

    def score(*inputs: Any) -> Iterator[Any]:
        yield from choosing.score_chosen(bench, batches, *inputs)

    boxes = [panel.only, panel.part]
    chosen = [runs, *boxes]
    offered = runs.change(partial(choosing.offer_again, batches), runs, boxes, **AT_ONCE)
    gr.on([panel.only.focus, panel.part.focus], partial(choosing.offer, batches), runs, boxes, **AT_ONCE)
    panel.save.click(partial(choosing.save_slice, batches), [*chosen, panel.called], [panel.part, said], **AT_ONCE)
    panel.score.click(score, chosen, said, concurrency_id="scores", concurrency_limit=1, api_visibility="private")
    return offered


def with_filter(batches: BatchContext, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler whose last inputs, order, filters and slice, become one: which videos are shown, and how."""

    def run(*inputs: Any) -> Any:
        *rest, name, order, only, part = inputs
        return work(batches, *rest, name, choosing.make_filter(batches, name, order, only, part))

    return run

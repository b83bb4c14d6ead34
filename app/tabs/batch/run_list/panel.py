"""Layout and wiring of the tab *Runs*."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, LATEST, make_status_line, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.run_list import handlers
from stepscope.app.tabs.batch.run_list.handlers import NotesView, RunListView
from stepscope.app.web.chart import make_chart
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.leaderboard import list_leaderboard_metrics


class RunListPanel(NamedTuple):
    """The inputs and outputs of the tab."""

    query: Any
    metrics: Any
    archived: Any
    metric: Any
    view: RunListView
    notes: NotesView


def make_run_list_panel() -> RunListPanel:
    """Lay out the tab."""
    choices = [(find_metric(name).label, name) for name in list_leaderboard_metrics()]
    with gr.Row():
        query = gr.Textbox(
            label="Search runs",
            placeholder="words, tag:baseline, seed:3, -word",
            max_lines=1,
            scale=3,
            elem_id="runs_query",
        )
        only = gr.Dropdown([], label="Only", multiselect=True, interactive=True, scale=3, elem_id="runs_only")
        archived = gr.Checkbox(label="Archived too", scale=0, min_width=160, elem_id="runs_archived")
    metrics = gr.Dropdown(
        choices,
        value=list(handlers.FIRST_METRICS),
        label="Scores, as measured",
        multiselect=True,
        elem_id="runs_metrics",
    )
    said = make_status_line("runs_said")
    table = gr.Dataframe(
        headers=handlers.HEADERS, interactive=False, wrap=True, max_height=420, elem_id="run_list", label="Runs"
    )
    with gr.Row(elem_id="run_notes"):
        note = gr.Textbox(label="Note", lines=2, max_lines=8, scale=4, interactive=False, elem_id="run_note")
        tags = gr.Dropdown(
            [],
            label="Tags",
            multiselect=True,
            allow_custom_value=True,
            interactive=False,
            scale=3,
            elem_id="run_tags",
        )
        group = gr.Textbox(label="Group", max_lines=1, scale=2, interactive=False, elem_id="run_group")
        with gr.Column(scale=0, min_width=150):
            hidden = gr.Checkbox(label="Archived", interactive=False, elem_id="run_archived")
            save = gr.Button("Save notes", size="sm", interactive=False, elem_id="run_save")
    notes_said = make_status_line("run_notes_said")
    metric = gr.Dropdown(
        choices, value=handlers.FIRST_METRICS[0], label="Score over time", interactive=True, elem_id="runs_metric"
    )
    chart = make_chart("chart_runs", hint="Click a point to show its run")
    return RunListPanel(
        query=query,
        metrics=metrics,
        archived=archived,
        metric=metric,
        view=RunListView(said=said, only=only, table=table, chart=chart),
        notes=NotesView(
            seen=gr.State(None), note=note, tags=tags, group=group, archived=hidden, save=save, said=notes_said
        ),
    )


def wire_run_list_panel(batches: BatchContext, panel: RunListPanel, *, runs: Any, here: Any) -> tuple[Any, Any]:
    """Wire the tab; return the events after which the run of a clicked row or point is the shown run.

    ``runs`` is the dropdown of the shown run. When the tab ``here`` is opened, the runs are listed again.
    """
    view, notes = panel.view, panel.notes
    inputs = [panel.query, view.only, panel.metrics, panel.archived, panel.metric]
    typed = [runs, notes.seen, notes.note, notes.tags, notes.group, notes.archived]
    show = partial(handlers.show_list, batches)
    changes = [here.select, panel.query.submit, panel.query.blur, *(one.input for one in inputs[1:])]
    wire(partial(gr.on, changes), show, inputs, view, **LATEST)
    changes = [here.select, runs.change]
    wire(partial(gr.on, changes), partial(handlers.show_notes, batches), typed, notes, **LATEST)
    saved = wire(notes.save.click, partial(handlers.save_notes, batches), typed, notes, **AT_ONCE)
    wire(saved.then, show, inputs, view, **LATEST)

    def open_row(event: gr.SelectData) -> Any:
        return handlers.open_row(batches, event)

    def open_point(event: gr.EventData) -> Any:
        return handlers.open_point(batches, event)

    return view.table.select(open_row, None, runs, **AT_ONCE), view.chart.pick(open_point, None, runs, **AT_ONCE)

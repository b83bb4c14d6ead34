"""The view *Over time* of the runs. Names, notes and tags are untrusted: they are in cells of type ``str`` only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.widgets import AT_ONCE, LATEST, Updates, make_status_line, read_event, wire
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import round_score, score_table
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.figures.charts.videos import draw_history
from stepscope.app.formatting import as_sentence
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.app.player.views import status_line
from stepscope.engine.io.files import show_turns
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.leaderboard import list_leaderboard_metrics
from stepscope.eval.reports.run_list import ListedRun, filter_runs, list_runs, tabulate_runs
from stepscope.eval.runs.notes import RunNotes, change_notes, read_notes, split_tags

HEADERS: Final = ["Run", "Date", "Origin"]
FIRST_METRICS: Final = ("F1", "missing_rate", "redundant_rate")
_NOTE_CHARS: Final = 80
_WIDTHS_PX: Final = {"run": 130, "date": 95, "origin": 100, "group": 110, "tags": 120, "note": 260}
_WIDTH_PX: Final = 95


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListForm:
    """Which runs are listed, with which scores."""

    query: Any
    metrics: Any
    archived: Any
    metric: Any
    """The score of the chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesForm:
    """The notes of the shown run."""

    note: Any
    tags: Any
    group: Any
    archived: Any

    def read(self) -> RunNotes:
        """Return the typed notes."""
        tags = split_tags(self.tags or ())
        return RunNotes(note=self.note or "", tags=tags, group=self.group or "", archived=bool(self.archived))


def show_list(batches: BatchContext, form: RunListForm) -> Updates:
    """Show the runs that a search finds, with their scores, and a chart of one score over time."""
    folders = {name: batches.folder(name) for name in batches.visible_runs()}
    runs = list_runs({name: path for name, path in folders.items() if (path / "run.json").is_file()})
    try:
        found = filter_runs(runs, form.query or "")
    except ValueError as error:
        return Updates(said=status_line(as_sentence(error), is_problem=True))
    shown = [run for run in found if form.archived or not run.notes.archived]
    num_hidden = len(found) - len(shown)
    hidden = f"; {num_hidden} archived" if num_hidden else ""
    problems = "".join(f" {run.name}: {as_sentence(run.problem)}" for run in shown if run.problem)
    said = f"{len(shown)} of {format_count(len(runs), 'run')}{hidden}. Click a row to show the run.{problems}"
    if not runs:
        said = (
            f"Runs in {batches.runs.name} are listed here, with the settings that differ, scores and notes. Press "
            "Start, or write one there with stepscope eval."
        )
    metric = form.metric
    has_history = sum(metric in run.scores for run in shown) > 1
    return Updates(
        said=status_line(said, is_problem=bool(problems)),
        table=_table(shown, form.metrics),
        chart=pack_chart(partial(draw_history, shown, metric), revision=metric) if has_history else "",
    )


def _table(runs: Sequence[ListedRun], metrics: Sequence[str]) -> Any:
    """Return the table, without columns in which no run has a value; the note is the last one, since it is long."""
    rows = tabulate_runs(runs, metrics)
    if not rows:
        return gr.Dataframe(value={"headers": HEADERS, "data": []}, column_widths=[])
    known = [name for name in rows[0] if any(_cell(row[name]) not in ("", None) for row in rows)]
    columns = sorted(known, key=lambda name: name == "note")
    heads = [find_metric(name).label if name in metrics else name.replace("_", " ").capitalize() for name in columns]
    counts = {name for name in metrics if find_metric(name).is_count}
    value = score_table(heads, [[_cell(row[name], is_count=name in counts) for name in columns] for row in rows])
    return gr.Dataframe(value=value, column_widths=[f"{_WIDTHS_PX.get(name, _WIDTH_PX)}px" for name in columns])


def _cell(value: Any, *, is_count: bool = False) -> str | float | None:
    if isinstance(value, float):
        return round_score(value, is_count=is_count)
    text = " ".join(str(value).split())
    return text if len(text) <= _NOTE_CHARS else f"{text[: _NOTE_CHARS - 1]}…"


def open_run(batches: BatchContext, event: gr.EventData) -> Any:
    """Choose the run of a clicked row, or of a clicked point of the chart, as the shown run."""
    name = str(read_event(event, "point") or event.row_value[0])
    return name if name in batches.run_names() else gr.skip()


def show_notes(batches: BatchContext, name: str | None, seen: tuple[str, RunNotes] | None, form: NotesForm) -> Updates:
    """Show the notes of a run. Notes of another run that were typed and not saved are saved first.

    Those of the run that is shown already stay as typed: a late reply would undo the typing.
    """
    if seen is not None and seen[0] == name:
        return Updates()
    if seen is not None and form.read() != seen[1]:
        try:
            _save(batches, *seen, form.read())
        except ValueError as error:
            gr.Warning(escape(as_sentence(error)))
    return _show(batches, name)


def save_notes(batches: BatchContext, name: str | None, seen: tuple[str, RunNotes] | None, form: NotesForm) -> Updates:
    """Save the typed notes of the shown run; a refusal changes no input."""
    if seen is None or seen[0] != name:
        return Updates()
    try:
        _save(batches, *seen, form.read())
    except ValueError as error:
        try:
            now = (name, read_notes(batches.folder(name)))
        except ValueError:
            now = seen
        return Updates(seen=now, said=status_line(as_sentence(error), is_problem=True))
    return Updates(_show(batches, name), said=status_line(f"Saved in the folder of {name}."))


def _show(batches: BatchContext, name: str | None) -> Updates:
    said, notes, seen = "", RunNotes(), None
    if not name or name not in batches.run_names() or not (batches.folder(name) / "run.json").is_file():
        said = "Choose a run to write notes on it."
    elif batches.folder(name) == batches.bundled:
        said = f"{BUNDLED_NAME} comes with the program and takes no notes."
    else:
        try:
            notes = read_notes(batches.folder(name))
            seen = (name, notes)
        except ValueError as error:
            said = as_sentence(error)
    label = f"Note on {show_turns(seen[0])}" if seen else "Note"
    return Updates(
        seen=seen,
        note=gr.Textbox(value=notes.note, label=label, interactive=seen is not None),
        tags=gr.Dropdown(
            choices=list(notes.tags),
            value=list(notes.tags),
            multiselect=True,
            allow_custom_value=True,
            interactive=seen is not None,
        ),
        group=gr.Textbox(value=notes.group, interactive=seen is not None),
        archived=gr.Checkbox(value=notes.archived, interactive=seen is not None),
        save=gr.Button(interactive=seen is not None),
        said=status_line(said),
    )


def _save(batches: BatchContext, name: str, seen: RunNotes, typed: RunNotes) -> None:
    """Write what was typed over ``seen``; what another person has changed meanwhile stays, except the same field.

    Raises ``ValueError`` as ``change_notes``, and once if the note was changed by both.
    """

    def change(now: RunNotes) -> RunNotes:
        if now.note not in (seen.note, typed.note) and typed.note != seen.note:
            raise ValueError(f"the note of {name} was changed meanwhile to “{now.note}”; Save again replaces it")
        tags = [tag for tag in now.tags if tag in typed.tags or tag not in seen.tags]
        fields = {field: getattr(typed, field) for field in ("note", "group", "archived")}
        changed = {field: value for field, value in fields.items() if value != getattr(seen, field)}
        return replace(now, **changed, tags=split_tags([*tags, *(tag for tag in typed.tags if tag not in seen.tags)]))

    change_notes(batches.folder(name), change)


def make_scores_choice() -> Any:
    """Return the dropdown of the scores in the lists of runs, which is rendered later."""
    return gr.Dropdown(
        [(find_metric(name).label, name) for name in list_leaderboard_metrics()],
        value=list(FIRST_METRICS),
        label="Scores, as measured; the first three are in the list of runs, too",
        multiselect=True,
        render=False,
        elem_id="runs_metrics",
    )


def make_run_list_panel(batches: BatchContext, *, runs: Any, metrics: Any, here: Any) -> tuple[Any, Any, Any]:
    """Lay out and wire the tab; return the events after which another run is shown, or its notes are changed."""
    with gr.Row():
        query = gr.Textbox(
            label="Search runs",
            placeholder="words, tag:baseline, group:lr, seed:3, -word",
            max_lines=1,
            scale=3,
            elem_id="runs_query",
        )
        archived = gr.Checkbox(label="Archived too", scale=0, min_width=160, elem_id="runs_archived")
    metrics.render()
    said = make_status_line("runs_said")
    table = gr.Dataframe(
        headers=HEADERS, interactive=False, wrap=True, max_height=420, elem_id="run_list", label="Runs"
    )
    saved = _make_notes(batches, runs=runs, here=here)
    metric = gr.Dropdown(
        metrics.choices, value=FIRST_METRICS[0], label="Score over time", interactive=True, elem_id="runs_metric"
    )
    chart = make_chart("chart_runs", hint="Click a point to show its run")
    form = RunListForm(query=query, metrics=metrics, archived=archived, metric=metric)
    view = {"said": said, "table": table, "chart": chart}
    changes = [here.select, query.submit, query.blur, *(one.input for one in (metrics, archived, metric))]
    for event in (partial(gr.on, changes), saved.then):
        wire(event, partial(show_list, batches), form, view, **LATEST)

    def choose(event: gr.EventData) -> Any:
        return open_run(batches, event)

    return table.select(choose, None, runs, **AT_ONCE), chart.pick(choose, None, runs, **AT_ONCE), saved


def _make_notes(batches: BatchContext, *, runs: Any, here: Any) -> Any:
    """Lay out and wire the notes of the shown run; return the event after which they are saved."""
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
            archived = gr.Checkbox(label="Archived", interactive=False, elem_id="run_archived")
            save = gr.Button("Save notes", size="sm", interactive=False, elem_id="run_save")
    form, seen = NotesForm(note=note, tags=tags, group=group, archived=archived), gr.State(None)
    view = {"note": note, "tags": tags, "group": group, "archived": archived, "save": save}
    view |= {"seen": seen, "said": make_status_line("run_notes_said")}
    typed, changes = [runs, seen, form], partial(gr.on, [here.select, runs.change])
    wire(changes, partial(show_notes, batches), typed, view, **LATEST)
    return wire(save.click, partial(save_notes, batches), typed, view, **AT_ONCE)

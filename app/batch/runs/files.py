"""The files of a run, and their export as one file."""

import csv
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import gradio as gr

from stepscope.app.batch.search import write_hits
from stepscope.app.batch.selection import Selection
from stepscope.app.controls import widgets
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.display_copies import find_downloadable
from stepscope.app.core.run import file_name
from stepscope.app.formatting import as_sentence
from stepscope.app.templates import render, render_note
from stepscope.engine.io.files import (
    load_json,
    open_text,
    read_text,
    replace_surrogates,
    to_cell,
    write_json,
    write_rows,
)
from stepscope.eval.runs import provenance
from stepscope.eval.runs.folder import RunFolder

TABLES: Final = (
    *("videos.csv", "columns.csv", "metrics.json", "charts.json", "traces.csv", "provenance.json"),
    "diagnosis.csv",
)
MOMENTS: Final = "moments.csv"
"""The moments of the search."""


def has_table(batches: BatchContext, name: str | None, table: str) -> bool:
    """Return whether a run has the file ``table``, one of ``TABLES``."""
    if name is None:
        return False
    source = "run.json" if table in ("traces.csv", "provenance.json") else table
    return find_downloadable(batches.folder(name) / source, private=batches.private) is not None


def draw_provenance(batches: BatchContext, name: str | None) -> str:
    """Return the provenance of a run as HTML: a line that expands into a table; empty for a run without a folder."""
    if not has_table(batches, name, "provenance.json"):
        return ""
    try:
        source = _provenance(batches, str(name))
    except ValueError as error:
        return render_note(as_sentence(error))
    return replace_surrogates(render("provenance", source=source))


def offer_files(batches: BatchContext, selection: Selection, chosen: Sequence[str]) -> widgets.Updates:
    """Offer the files that the shown run has; those that were chosen stay so, else all are."""
    name = selection.run if selection.run in batches.run_names() else None
    found = [table for table in TABLES if has_table(batches, name, table)]
    found += [MOMENTS] if name and selection.query else []
    kept = [table for table in found if table in chosen] or found
    return widgets.Updates(
        files=gr.CheckboxGroup(choices=found, value=kept),
        export=describe_files(name, kept),
        videos_csv=gr.Button(interactive="videos.csv" in found),
    )


def describe_files(name: str | None, chosen: Sequence[str]) -> Any:
    """Return the button of the export, which says what the file will hold."""
    if not name or not chosen:
        return gr.Button("Export: choose files", interactive=False)
    files = file_name(name, chosen[0]) if len(chosen) == 1 else f"{len(chosen)} files of {name} as a zip"
    return gr.Button(f"Export {files}", interactive=True)


def export(batches: BatchContext, chosen: Sequence[str], selection: Selection) -> Generator[Any]:
    """Write files of the shown run, several as a zip, and yield the path; see ``send_file``."""

    def write(folder: Path) -> Path:
        name = selection.run
        if name not in batches.run_names() or not chosen:
            raise ValueError("choose a run and the files to export")
        lacking = [table for table in chosen if table != MOMENTS and not has_table(batches, name, table)]
        if lacking:
            raise ValueError(
                f"{name} has no {' and no '.join(lacking)}; wait for the end of the run, or start it again"
            )
        paths = [
            write_hits(folder, batches, selection) if table == MOMENTS else write_table(folder, batches, name, table)
            for table in chosen
        ]
        if len(paths) == 1:
            return paths[0]
        archive = folder / file_name(name, "files.zip")
        with ZipFile(archive, "w", ZIP_DEFLATED) as file:
            for path in paths:
                file.write(path, path.name)
        return archive

    yield from widgets.send_file(write)


def write_table(folder: Path, batches: BatchContext, name: str, table: str) -> Path:
    """Write one of ``TABLES`` of a run into a folder; return its path. Raises ``ValueError`` if that fails."""
    path, run = folder / file_name(name, table), RunFolder(batches.folder(name))
    source = _provenance(batches, name)
    found = find_downloadable(run.path / table, private=batches.private)
    if table == "traces.csv":
        samples = batches.need_split(name).samples
        videos = (replace(video, run=name) for video in provenance.iter_traced_videos(run, samples))
        provenance.write_traces(path, videos, signals=run.signals())
    elif table == "provenance.json":
        write_json(path, asdict(source))
    elif found is None:
        raise ValueError(f"there is no download {table!r}; choose one of {', '.join(TABLES)}")
    elif table in ("videos.csv", "diagnosis.csv"):
        write_rows(path, _with_provenance(_read_rows(found), source))
    elif table == "columns.csv":
        write_rows(path, _with_definitions(_read_rows(found)))
    else:
        content = load_json(read_text(found))
        if not isinstance(content, dict):
            raise ValueError(f"{found} is not a JSON object; start the run again")
        write_json(path, {**provenance.hide_folders(content), "provenance": asdict(source)})
    return path


def _provenance(batches: BatchContext, name: str) -> provenance.Provenance:
    """Return the provenance of a run, with its name on the page: the folder of the bundled run has another name."""
    return replace(provenance.read_provenance(RunFolder(batches.folder(name))), run=name)


def _read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, header first. Raises ``ValueError`` for rows of unequal length."""
    with open_text(path, newline="") as file:
        width = None
        for row in csv.reader(file):
            width = len(row) if width is None else width
            if len(row) != width:
                raise ValueError(f"{path} has a row of {len(row)} cells instead of {width}; start the run again")
            yield row


def _with_provenance(rows: Iterator[list[str]], source: provenance.Provenance) -> Iterator[list[str]]:
    columns = source.columns()
    cells = [to_cell(value) for value in columns.values()]
    yield [*next(rows, []), *columns]
    yield from ([*row, *cells] for row in rows)


def _with_definitions(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    header = next(rows, [])
    yield header
    yield from rows
    for name, definition in provenance.PROVENANCE_COLUMNS.items():
        cells = {"column": name, "definition": definition}
        yield [cells.get(column, "") for column in header]


def make_files_panel(batches: BatchContext, videos_csv: Any, *, selection: Selection, shown: Any) -> None:
    """Lay out and wire the export of files in the present box, and the button ``videos_csv`` of the most used one."""
    with gr.Row():
        files = gr.CheckboxGroup([*TABLES, MOMENTS], label="Files of the run", scale=4, elem_id="export_files")
        button = gr.Button("Export", variant="primary", size="sm", scale=0, min_width=200, elem_id="export")
    view = {"files": files, "export": button, "videos_csv": videos_csv}
    offer = partial(offer_files, batches)
    widgets.wire(partial(gr.on, [shown.change]), offer, [selection, files], view, **widgets.LATEST)
    widgets.wire(files.input, describe_files, [selection.run, files], button, **widgets.AT_ONCE)
    widgets.wire_download(button.click, partial(export, batches), [files, selection])
    widgets.wire_download(videos_csv.click, partial(export, batches, ("videos.csv",)), selection)

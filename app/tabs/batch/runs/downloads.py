"""Downloads of a run: its tables with provenance columns, the traces of all videos, and the provenance.

A file is written on request, named after its run, and deleted once Gradio has made its own copy.
"""

import csv
from collections.abc import Generator, Iterator
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.display_copies import find_downloadable
from stepscope.app.core.run import file_name
from stepscope.app.formatting import as_sentence
from stepscope.app.templates import render, render_note
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import (
    load_json,
    open_text,
    read_text,
    replace_surrogates,
    to_cell,
    write_json,
    write_rows,
)
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import PROVENANCE_COLUMNS, Provenance, hide_folders
from stepscope.eval.runs.traces import iter_traced_videos, read_provenance, write_traces

TABLES: Final = ("videos.csv", "columns.csv", "metrics.json", "charts.json", "traces.csv", "provenance.json")
"""File names of the downloads."""


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


def download(batches: BatchContext, name: str | None, table: str) -> Generator[Any]:
    """Write a file of a run and yield its path; yield None and show a warning if that fails."""
    with TemporaryDirectory(prefix="stepscope-export-") as folder:
        try:
            if name not in batches.run_names() or not has_table(batches, name, table):
                raise ValueError(f"{name} has no {table}; wait for the end of the run, or start it again")
            yield str(write_table(Path(folder), batches, str(name), table))
        except (EngineError, ValueError, OSError) as error:
            gr.Warning(escape(as_sentence(error)))
            yield None


def write_table(folder: Path, batches: BatchContext, name: str, table: str) -> Path:
    """Write one of ``TABLES`` of a run into a folder; return its path. Raises ``ValueError`` if that fails."""
    path, run = folder / file_name(name, table), RunFolder(batches.folder(name))
    source = _provenance(batches, name)
    found = find_downloadable(run.path / table, private=batches.private)
    if table == "traces.csv":
        split = batches.split_of(run.settings() or {})
        if split is None:
            raise ValueError(f"{name} is a run of {source.split}, a split that this page does not have")
        videos = (replace(video, provenance=source) for video in iter_traced_videos(run, split.samples))
        write_traces(path, videos, signals=run.signals())
    elif table == "provenance.json":
        write_json(path, asdict(source))
    elif found is None:
        raise ValueError(f"there is no download {table!r}; choose one of {', '.join(TABLES)}")
    elif table == "videos.csv":
        write_rows(path, _with_provenance(_read_rows(found), source))
    elif table == "columns.csv":
        write_rows(path, _with_definitions(_read_rows(found)))
    else:
        content = load_json(read_text(found))
        if not isinstance(content, dict):
            raise ValueError(f"{found} is not a JSON object; start the run again")
        write_json(path, {**hide_folders(content), "provenance": asdict(source)})
    return path


def _provenance(batches: BatchContext, name: str) -> Provenance:
    """Return the provenance of a run, with its name on the page: the folder of the bundled run has another name."""
    return replace(read_provenance(RunFolder(batches.folder(name))), run=name)


def _read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, header first. Raises ``ValueError`` for rows of unequal length."""
    with open_text(path, newline="") as file:
        width = None
        for row in csv.reader(file):
            width = len(row) if width is None else width
            if len(row) != width:
                raise ValueError(f"{path} has a row of {len(row)} cells instead of {width}; start the run again")
            yield row


def _with_provenance(rows: Iterator[list[str]], source: Provenance) -> Iterator[list[str]]:
    """Yield rows with the columns of the provenance appended."""
    columns = source.columns()
    cells = [to_cell(value) for value in columns.values()]
    yield [*next(rows, []), *columns]
    yield from ([*row, *cells] for row in rows)


def _with_definitions(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield the definitions of columns, then those of the provenance."""
    header = next(rows, [])
    yield header
    yield from rows
    for name, definition in PROVENANCE_COLUMNS.items():
        cells = {"column": name, "definition": definition}
        yield [cells.get(column, "") for column in header]

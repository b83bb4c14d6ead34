"""Layout and wiring of the shown run: its choice, downloads, table of videos and charts."""

import csv
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.batch.file_rows import NamedFigure, make_figure_row
from stepscope.app.controls import widgets
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.display_copies import find_downloadable
from stepscope.app.core.results import HEADERS
from stepscope.app.core.run import file_name
from stepscope.app.figures.charts import videos
from stepscope.app.figures.charts.registry import CHARTS, Chart
from stepscope.app.figures.charts.videos import SCATTER_SCORES, VIDEO_SCORES
from stepscope.app.formatting import as_sentence
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.app.style.colours import Theme
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
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.table_files import Results, read_results
from stepscope.eval.runs import provenance
from stepscope.eval.runs.folder import RunFolder

TABLES: Final = (
    *("videos.csv", "columns.csv", "metrics.json", "charts.json", "traces.csv", "provenance.json"),
    "diagnosis.csv",
)


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


def download(batches: BatchContext, table: str, name: str | None) -> Generator[Any]:
    """Write a file of a run and yield its path; see ``send_file``."""

    def write(folder: Path) -> Path:
        if name not in batches.run_names() or not has_table(batches, name, table):
            raise ValueError(f"{name} has no {table}; wait for the end of the run, or start it again")
        return write_table(folder, batches, str(name), table)

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


def make_charts_panel(batches: BatchContext, *, runs: Any, shown: Any, here: Any) -> dict[str, Any]:
    """Lay out the charts as a grid, and wire them; return them by their names in ``CHARTS``."""
    with gr.Row(elem_classes="charts"):
        hints = {"failures": "Click a bar for its videos"}
        charts = {name: make_chart(f"chart_{name}", hint=hints.get(name, "")) for name in CHARTS if name != "videos"}
        with gr.Column(elem_classes="videos-chart"):
            with gr.Row():
                choices = [(find_metric(name).label, name) for name in VIDEO_SCORES]
                x, y = (
                    gr.Dropdown(choices, value=score, label=label, interactive=True, min_width=120, elem_id=elem_id)
                    for score, label, elem_id in zip(
                        SCATTER_SCORES, ("Across", "Up"), ("scatter_x", "scatter_y"), strict=True
                    )
                )
            charts["videos"] = make_chart("chart_videos", hint="Click a point to open its video")
    inputs, titles = [runs, x, y], {name: chart.title for name, chart in CHARTS.items()}
    make_figure_row(titles, partial(draw_run_chart, batches), inputs, elem_id="chart")
    gr.on([here.select, shown.change], partial(show_charts, batches), inputs, list(charts.values()), **widgets.LATEST)
    gr.on([x.select, y.select], partial(show_videos, batches), inputs, charts["videos"], **widgets.LATEST)
    return charts


def find_chart(key: str, *, x: str, y: str) -> Chart:
    """Return a chart by its name in ``CHARTS``, ``videos`` with the scores ``x`` and ``y``."""
    chart = CHARTS[key]
    return replace(chart, build=partial(videos.scatter, x=x, y=y)) if key == "videos" else chart


def show_charts(batches: BatchContext, name: str | None, x: str, y: str) -> list[str]:
    """Return the charts of a run in the order of ``CHARTS``, with the scores ``x`` and ``y`` of each video."""
    results = read_shown_results(batches, name)
    return [_pack(results, name, key, x, y) for key in CHARTS]


def draw_run_chart(batches: BatchContext, run: str | None, x: str, y: str, name: str, theme: Theme) -> NamedFigure:
    """Return a chart of a run; ``x`` and ``y`` are the scores of the chart of videos. Raises ``ValueError``."""
    results = read_shown_results(batches, run)
    if name not in CHARTS or not results.metrics:
        raise ValueError("there are no charts; choose a run that is scored")
    return NamedFigure(figure=find_chart(name, x=x, y=y).draw(results, theme), run=str(run))


def show_videos(batches: BatchContext, name: str | None, x: str, y: str) -> str:
    """Return the chart of the videos of a run by the scores ``x`` and ``y``."""
    return _pack(read_shown_results(batches, name), name, "videos", x, y)


def read_shown_results(batches: BatchContext, name: str | None) -> Results:
    """Return the tables of the shown run; empty without one."""
    return read_results(batches.folder(name)) if name is not None and name in batches.run_names() else Results()


def _pack(results: Results, name: str | None, key: str, x: str, y: str) -> str:
    revision = f"{name} {x} {y}" if key == "videos" else str(name)
    return pack_chart(partial(find_chart(key, x=x, y=y).draw, results), revision=revision)


class RunPanel(NamedTuple):
    """The shown run: its choice, its downloads and its buttons."""

    runs: Any
    status: Any
    progress: Any
    downloads: Mapping[str, Any]
    """By file name with ``_`` for ``.``, as their buttons are named."""
    origin: Any
    use: Any
    score: Any
    cancel: Any
    publish: Any
    """The button that opens the panel *Publish*."""


def make_run_panel(batches: BatchContext) -> RunPanel:
    """Lay out the button of the form, the choice of the shown run, its buttons and downloads; wire the downloads."""
    with gr.Row(elem_classes="top-row"):
        widgets.make_fold("new_run", "☰ New run")
        runs = gr.Dropdown([], label="Run shown", container=False, interactive=True, elem_id="batch_runs")
        status = widgets.make_status_line("batch_status")
    progress = gr.HTML(elem_id="batch_progress", padding=False)
    with gr.Row(elem_id="shown"):
        origin = gr.HTML(elem_id="origin", padding=False, scale=1)
        use = gr.Button(
            "Use these settings", size="sm", scale=0, min_width=140, interactive=False, elem_id="use_settings"
        )
        publish = gr.Button("Publish", size="sm", scale=0, min_width=90, elem_id="publish_open")
        score = gr.Button("Score", size="sm", scale=0, min_width=90, interactive=False, elem_id="score")
        cancel = gr.Button(
            "Cancel", variant="stop", size="sm", scale=0, min_width=90, interactive=False, elem_id="cancel"
        )
        downloads = {}
        for table in TABLES:
            name = table.replace(".", "_")
            downloads[name] = gr.Button(table, size="sm", interactive=False, elem_id=f"get_{name}")
            widgets.wire_download(downloads[name].click, partial(download, batches, table), runs)
    return RunPanel(
        runs=runs,
        status=status,
        progress=progress,
        downloads=downloads,
        origin=origin,
        use=use,
        score=score,
        cancel=cancel,
        publish=publish,
    )


def make_video_table() -> Any:
    """Lay out the table of videos."""
    return gr.Dataframe(
        headers=HEADERS,
        datatype=["str", *["number"] * (len(HEADERS) - 2), "str"],
        interactive=False,
        max_height=900,
        show_search="search",
        elem_id="videos",
        label="Click a row to open the video at its worst moment",
        column_widths=["18%", *["9.7%"] * (len(HEADERS) - 2), "14%"],
        wrap=True,
    )

"""The tab *Charts* of the shown run."""

from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from stepscope.app.batch.file_rows import NamedFigure, make_figure_row
from stepscope.app.controls import widgets
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts import videos
from stepscope.app.figures.charts.registry import CHARTS, Chart
from stepscope.app.figures.charts.videos import SCATTER_SCORES, VIDEO_SCORES
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.app.style.colours import Theme
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.table_files import Results, read_results


def make_charts_panel(batches: BatchContext, *, runs: Any, shown: Any, here: Any) -> dict[str, Any]:
    """Lay out the charts as a grid, and wire them; return them by their names in ``CHARTS``."""
    with gr.Row(elem_classes="charts"):
        hints = dict.fromkeys(("failures", "roots"), "Click a bar for its videos")
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

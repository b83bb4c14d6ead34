"""A page with only charts, served from the tables of a run folder: starts in a few seconds.

``python -m tests.support.servers.chart_page FOLDER PORT`` shows every chart of the run, and the picked point as text.
"""

import sys
from functools import partial
from pathlib import Path

import gradio as gr

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.player.component import make_chart, pack_chart
from stepscope.eval.reports.table_files import read_results
from tests.support.servers.small_page import launch


def main(folder: Path, port: int) -> None:
    """Serve the charts of a run folder until interrupted."""

    def draw_all() -> list[str]:
        results = read_results(folder)
        return [pack_chart(partial(chart.draw, results), revision=folder.name) for chart in CHARTS.values()]

    with gr.Blocks(analytics_enabled=False, fill_width=True) as page:
        picked = gr.Textbox(label="picked", elem_id="picked")
        with gr.Row(elem_classes="charts"):
            charts = [make_chart(name, hint="Click") for name in CHARTS]
        page.load(draw_all, None, charts, show_progress="hidden")
        for chart in charts:
            chart.pick(_write_down, None, picked, show_progress="hidden")
    launch(page, folder, port)


def _write_down(event: gr.EventData) -> str:
    return str(event.point)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

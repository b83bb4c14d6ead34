"""Downloads of the run in the player: traces, outputs, provenance, charts, and the PDF of its timeline.

Each file is named after its video and run. ``stepscope export traces`` writes the same tables for a run folder. The
page draws the timeline as SVG.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn
from xml.etree.ElementTree import ParseError, XMLParser

import gradio as gr
import plotly.graph_objects as go

from stepscope.app.controls.widgets import send_file
from stepscope.app.core.references import digest_reference
from stepscope.app.core.run import Run, analyze_run, file_name, write_run_file
from stepscope.app.figures.browser import print_svg
from stepscope.app.figures.charts.layout import plain
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.figures.options import parse_width, read_format
from stepscope.app.figures.render import write_figure
from stepscope.app.player.commands import FigureRequest, FileRequest
from stepscope.app.player.streaming import read_corrected
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.live_run import Window
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.score import score_counts
from stepscope.eval.reports.charts import build_chart_data, chart_signals
from stepscope.eval.reports.table_files import Results
from stepscope.eval.runs.folder import read_signal_specs


def export_run(window: Window, asked: FileRequest) -> Generator[Any]:
    """Yield the path of an exported file of the displayed run; see ``send_file``."""
    yield from send_file(lambda folder: write_run_file(folder, window.find_finished("export")[1], asked.content))


TIMELINE: Final = "timeline"
_ELEMENTS: Final = frozenset(
    {"svg", "g", "defs", "clipPath", "rect", "path", "circle", "line", "text", "tspan", "title"}
)
_REPEATS: Final = "the timeline must draw each part once; reload the page"
OF_RUNS: Final = ("roots", "classes", "videos")
VIDEO_CHARTS: Final = {TIMELINE: "Timeline", **{name: one.title for name, one in CHARTS.items() if name not in OF_RUNS}}
"""Figures of one video, by name: titles in the order of the page."""


def export_figure(
    context: AppContext, reviews: ReviewContext, window: Window, asked: FigureRequest, request: gr.Request
) -> Generator[Any]:
    """Yield the path of a figure of ``VIDEO_CHARTS``; see ``send_file``."""

    def write(folder: Path) -> Path:
        _, run = window.find_finished("export")
        file_format = read_format(Path(), asked.format)
        chart = asked.chart or TIMELINE
        if chart not in VIDEO_CHARTS:
            raise ValueError(f"there is no figure {chart!r} of a video; choose one of {', '.join(VIDEO_CHARTS)}")
        name = "figure" if chart == TIMELINE else chart
        path = folder / file_name(run.clip.name, run.name or run.digest, f"{name}.{file_format}")
        if chart == TIMELINE:
            path.write_bytes(_print(asked.svg, file_format))
            return path
        if asked.corrected:
            sample = reviews.sample(run.clip.video_id, reference=digest_reference(run.clip))
            if sample is None:
                raise ValueError("the reference of this run is no longer known; reload the page")
            corrected = read_corrected(reviews, sample, asked, request).sample
            run = replace(run, clip=replace(run.clip, sample=corrected))
        width = parse_width(asked.width)
        write_figure(path, _draw_chart(run, context.encode, chart, asked.theme), file_format, width=width)
        return path

    yield from send_file(write)


def _print(svg: str, file_format: str) -> bytes:
    if file_format != "pdf" or not svg:
        raise ValueError("the page draws the timeline and sends it to be printed as PDF; reload the page")
    parser = XMLParser(target=_Timeline())
    try:
        parser.feed(svg.encode(errors="replace"))
        parser.close()
    except ParseError as error:
        raise ValueError(f"the timeline is no SVG: {error}; reload the page") from error
    return print_svg(svg)


class _Timeline:
    """Refuses elements that repeat others or blur: ten lines of them may draw a billion, and keep a browser busy."""

    def __init__(self) -> None:
        self._num_clips = 0

    def doctype(self, *_: object) -> NoReturn:
        raise ValueError(_REPEATS)  # it may define parts of the drawing

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name, style = tag.rpartition("}")[2], attributes.get("style", "")
        is_nested = self._num_clips > 0 and any("url" in value for value in attributes.values())
        if name not in _ELEMENTS or is_nested or "filter" in attributes or "filter" in style or "\\" in style:
            raise ValueError(_REPEATS)
        self._num_clips += name == "clipPath"

    def end(self, tag: str) -> None:
        self._num_clips -= tag.endswith("}clipPath")


def _draw_chart(run: Run, encode: Encode, name: str, theme: str) -> go.Figure:
    specs = read_signal_specs(run.settings)
    analysis = analyze_run(run, encode)
    if analysis is None:
        raise ValueError(f"{CHARTS[name].title} needs a reference to score against; this video has none")
    results = Results(
        metrics={"scores": score_counts(analysis.counts), "config": run.provenance.config, **run.scoring_settings},
        charts=build_chart_data([analysis]) | chart_signals(specs, [analysis]),
    )
    figure = CHARTS[name].draw(results, "dark" if theme == "dark" else "light")
    return figure.update_layout(title_text=f"{CHARTS[name].title}: {plain(run.clip.name)}")

"""The menus and buttons that save a chart or a table of the batch tab as a file."""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import gradio as gr
import plotly.graph_objects as go

from stepscope.app.controls import widgets
from stepscope.app.core.run import file_name
from stepscope.app.figures.options import FORMATS, parse_width, read_format
from stepscope.app.figures.render import write_figure
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.table_formats import TableFormat

WIDTHS = ("85mm", "180mm", "1000px")


class NamedFigure(NamedTuple):
    """A chart, and the name of its file: that of the run, or of both runs."""

    figure: go.Figure
    run: str


DrawFigure = Callable[..., NamedFigure]
"""Takes the values of the inputs, then the name of a chart and the theme. Raises ``ValueError`` without one."""


def make_figure_row(titles: Mapping[str, str], draw: DrawFigure, inputs: Sequence[Any], *, elem_id: str) -> None:
    """Lay out the choices below charts, whose ``titles`` are by name, and save the chosen one.

    ``draw`` draws it from ``inputs``. The button is ``#save_<elem_id>``.
    """
    with gr.Row(elem_id=f"{elem_id}_figure", elem_classes="figure-row"):
        charts = [(title, name) for name, title in titles.items()]
        choices = [
            gr.Dropdown(charts, label="Figure of", interactive=True, scale=2, min_width=240),
            gr.Dropdown(list(WIDTHS), label="Width", interactive=True, min_width=100),
            gr.Dropdown(list(get_args(Theme)), label="Colours", interactive=True, min_width=100),
            gr.Dropdown([(f.upper(), f) for f in FORMATS], label="Format", interactive=True, min_width=100),
        ]
        save = gr.Button("Save figure", scale=0, min_width=140, elem_id=f"save_{elem_id}")
    widgets.wire_download(save.click, partial(write_chart, draw), [*inputs, *choices], **widgets.FIGURE_QUEUE)


def write_chart(draw: DrawFigure, *choices: Any) -> Generator[Any]:
    """Yield the path of a chart as a file; see ``send_file``.

    ``choices`` are the arguments of ``draw`` without the theme, then width, theme and format.
    """
    *inputs, width, theme, file_format = choices

    def write(folder: Path) -> Path:
        known, extent = read_format(Path(), str(file_format)), parse_width(str(width))
        made = draw(*inputs, "dark" if theme == "dark" else "light")
        path = folder / file_name(made.run, f"{inputs[-1]}.{known}")
        write_figure(path, made.figure, known, width=extent)
        return path

    yield from widgets.send_file(write)


LABELS: Final[dict[TableFormat, str]] = {"markdown": "Markdown", "csv": "CSV", "latex": "LaTeX"}
ENDINGS: Final[dict[TableFormat, str]] = {"markdown": "md", "csv": "csv", "latex": "tex"}
WriteTable = Callable[..., Path]
"""Takes a folder, a format and the values of the inputs; returns the file. Raises ``ValueError`` without a table."""


def make_table_row(elem_id: str, write: WriteTable, inputs: Sequence[Any]) -> None:
    """Lay out the buttons in the present row, ``#<elem_id>_<format>``; save the table that ``write`` writes."""
    for name, label in LABELS.items():
        button = gr.Button(f"Save as {label}", size="sm", scale=0, min_width=130, elem_id=f"{elem_id}_{name}")
        widgets.wire_download(button.click, partial(save_table, write, name), list(inputs))


def save_table(write: WriteTable, table_format: TableFormat, *inputs: Any) -> Generator[Any]:
    """Yield the path of a table as a file; see ``send_file``."""
    yield from widgets.send_file(lambda folder: write(folder, table_format, *inputs))

"""Files of figures: SVG, PNG and PDF, which a browser draws, Plotly's JSON, and the drawn data as CSV."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, Final, Literal
from unicodedata import east_asian_width

import numpy as np
import plotly.graph_objects as go

from stepscope.app.figures.browser import draw_picture
from stepscope.app.figures.charts.layout import BACKGROUNDS, TEXT_COLOURS
from stepscope.app.figures.options import FigureFormat, Width
from stepscope.app.figures.text import LINE, from_markup, to_markup
from stepscope.app.style.colours import Theme
from stepscope.engine.io.files import Cell, atomic_write, write_csv

_MAX_NOTE_LINES: Final = 4
_PAD_PX: Final = 12
FONT: Final = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
"""Fonts of files: common ones with nearly equal widths."""


def write_figure(path: Path, figure: go.Figure, file_format: FigureFormat, *, width: Width) -> None:
    """Write a figure atomically, and set its width.

    Raises ``EngineError`` if SVG, PNG or PDF cannot be drawn.
    """
    figure.update_layout(width=width.pixels)
    if file_format == "csv":
        basis = (figure.layout.meta or {}).get("basis")
        rows = [{**row, **({"scoring": basis} if basis else {})} for row in trace_rows(figure)]
        write_csv(path, rows, columns=list(dict.fromkeys(name for row in rows for name in row)))
        return
    content = _render(for_file(figure), file_format, width)
    with atomic_write(path, binary=True) as file:
        file.write(content)


def _render(figure: go.Figure, file_format: Literal["svg", "png", "pdf", "json"], width: Width) -> bytes:
    if file_format == "json":
        return str(figure.to_json(pretty=False)).encode()
    picture = draw_picture(figure, file_format)
    return _set_paper_size(picture, width) if file_format == "svg" else picture


def _set_paper_size(svg: bytes, width: Width) -> bytes:
    """Return an SVG of Plotly, whose size is in pixels, with that size in the unit of the width."""

    def convert(match: re.Match[bytes]) -> bytes:
        return b'%s="%s"' % (match[1], width.css(float(match[2])).encode())

    start, end, rest = svg.partition(b">")
    return re.sub(rb'\b(width|height)="([\d.]+)"', convert, start) + end + rest


def for_file(figure: go.Figure) -> go.Figure:
    """Return a copy of a figure with fonts and a background that need no page around it."""
    made = go.Figure(figure)
    layout = figure.layout
    theme: Theme = "dark" if layout.template.layout.font.color == TEXT_COLOURS["dark"] else "light"
    _add_notes(made)
    return made.update_layout(font_family=FONT, paper_bgcolor=layout.paper_bgcolor or BACKGROUNDS[theme])


def _add_notes(figure: go.Figure) -> None:
    """Show the note and the basis of the scores below the title, in lines that fit, and make room for them."""
    layout = figure.layout
    size = layout.title.subtitle.font.size or layout.template.layout.font.size
    note = from_markup(layout.title.subtitle.text or "")
    parts = [part for part in (note, (layout.meta or {}).get("basis", "")) if part]
    if not parts or not layout.width:
        return
    # from edge to edge, as labels may widen the margin
    lines = [line for part in parts for line in _wrap(part, (layout.width - 2 * _PAD_PX) / size)]
    more = LINE * size * (len(lines) - 1)
    figure.update_layout(
        title={"xref": "container", "x": 0, "pad_l": _PAD_PX, "subtitle_text": "<br>".join(map(to_markup, lines))},
        height=layout.height + more,
        margin_t=(layout.margin.t or 0) + more,
    )


def _wrap(text: str, width_em: float) -> list[str]:
    """Break a text into lines by the mean width of its characters: at most 0.65 em in such fonts, 1 em of wide ones."""
    wide = sum(east_asian_width(char) in "WF" for char in text) / len(text)
    num_chars = int(width_em / (0.65 + 0.35 * wide))
    return TextWrapper(num_chars, max_lines=_MAX_NOTE_LINES, placeholder="…", break_on_hyphens=False).wrap(text)


def trace_rows(figure: go.Figure) -> Iterator[dict[str, Cell]]:
    """Yield a row for each point of a figure: trace, x, y, and z and text where it has them.

    Traces without a name that cannot be pointed at are left out: they repeat others, or are lines to compare with.
    """
    for number, trace in enumerate(figure.data):
        if not trace.name and trace.hoverinfo == "skip":
            continue
        name = from_markup(trace.name or f"trace {number + 1}")
        if trace.type == "heatmap":
            for y, values, texts in zip(trace.y, trace.z, trace.text, strict=True):
                for x, value, text in zip(trace.x, values, texts, strict=True):
                    yield {"trace": name, "x": _cell(x), "y": _cell(y), "z": _cell(value), "text": _cell(text)}
            continue
        columns = {key: trace[key] for key in ("x", "y", "text") if trace[key] is not None}
        for cells in zip(*columns.values(), strict=True):
            row = {key: _cell(cell) for key, cell in zip(columns, cells, strict=True)}
            if any(value is not None for value in row.values()):
                yield {"trace": name, **row}


def _cell(value: Any) -> Cell:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, int | float):
        return value
    return from_markup(str(value)).replace("\n", "; ")

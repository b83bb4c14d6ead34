"""Heat maps and colour bars."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

from app.figures.svg.axes import Area, Axis, title_text
from app.figures.svg.colours import colour_at, read_scale
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.source import Values, merge
from app.figures.svg.ticks import format_number, multiples, round_step
from app.figures.text import LINE, from_markup, text_width

BAR_PX: Final = 12.0
_GAP: Final = 12.0
_BAR_TICKS: Final = 6
"""Most steps between the ticks of a colour bar."""


def with_colour_axes(traces: Sequence[Values], layout: Values) -> list[Values]:
    """Return the traces with the scale of the colour axis that their cells or markers share."""
    shared = {name: _range_of(traces, name) for name in {_colour_axis(trace) for trace in traces} if name in layout}
    made = []
    for trace in traces:
        name = _colour_axis(trace)
        if name in shared:
            (low, high), options = shared[name], layout[name]
            low, high = options.get("cmin", low), options.get("cmax", high)
            if trace["type"] == "heatmap":
                trace = merge(trace, {**options, "zmin": low, "zmax": high})
            else:
                scale = {part: options[part] for part in ("colorscale", "reversescale") if part in options}
                trace = merge(trace, {"marker": {**scale, "cmin": low, "cmax": high}})
        made.append(trace)
    return made


def _colour_axis(trace: Values) -> str:
    """Return the name of the colour axis of a trace; empty without one."""
    return str((trace if trace["type"] == "heatmap" else trace.get("marker") or {}).get("coloraxis") or "")


def _range_of(traces: Sequence[Values], name: str) -> tuple[float, float]:
    """Return the least and the greatest value that cells and markers show on a colour axis."""
    known: list[float] = []
    for trace in traces:
        if _colour_axis(trace) == name:
            rows = trace.get("z") if trace["type"] == "heatmap" else [trace["marker"].get("color")]
            known += [value for row in rows or () if isinstance(row, list) for value in row if _is_number(value)]
    return min(known, default=0.0), max(known, default=1.0)


def cell_range(trace: Values) -> tuple[float, float]:
    """Return the values at the ends of the colour scale."""
    known = [value for row in trace.get("z") or () for value in row if _is_number(value)]
    return float(trace.get("zmin", min(known, default=0.0))), float(trace.get("zmax", max(known, default=1.0)))


def draw_cells(drawing: Drawing, trace: Values, x: Axis, y: Axis) -> None:
    """Draw the cells of a heat map and their texts."""
    rows = trace.get("z") or []
    scale, (low, high) = read_scale(trace), cell_range(trace)
    num_columns = max(map(len, rows), default=0)
    xs, ys = _edges(x, trace.get("x"), num_columns), _edges(y, trace.get("y"), len(rows))
    gap_x, gap_y = float(trace.get("xgap", 0)), float(trace.get("ygap", 0))
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            if not _is_number(value):
                continue
            (left, right), (top, bottom) = sorted(xs[column : column + 2]), sorted(ys[row : row + 2])
            colour = colour_at(scale, (value - low) / ((high - low) or 1))
            box = {"x": left + gap_x / 2, "y": top + gap_y / 2}
            box |= {"width": right - left - gap_x, "height": bottom - top - gap_y}
            drawing.add("rect", **box, **paint("fill", colour, float(trace.get("opacity", 1))))
            if text := _cell_text(trace, row, column, value):
                font = trace.get("textfont") or {}
                colour = font.get("color") or _contrast(colour)
                place = ((left + right) / 2, (top + bottom) / 2)
                drawing.text(text, *place, align="center", size=font.get("size"), colour=colour)


def _cell_text(trace: Values, row: int, column: int, value: float) -> str:
    template = trace.get("texttemplate")
    if not template:
        return ""
    texts = trace.get("text") or []
    text = str(texts[row][column]) if row < len(texts) and column < len(texts[row]) else ""
    filled = str(template).replace("%{text}", text).replace("%{z}", format_number(value))
    head, found, rest = filled.partition("%{z:")
    form, _, tail = rest.partition("}")
    return f"{head}{format_number(value, form)}{tail}" if found else filled


def _edges(axis: Axis, values: Any, count: int) -> list[float]:
    """Return the pixels of the edges of cells, half way between their middles."""
    numbers = [axis.number(value) for value in values] if values is not None else [float(n) for n in range(count)]
    if len(numbers) == count + 1:
        edges = numbers
    elif len(numbers) < 2:
        edges = [numbers[0] - 0.5, numbers[0] + 0.5] if numbers else [0.0]
    else:
        inner = [(a + b) / 2 for a, b in itertools.pairwise(numbers)]
        edges = [2 * numbers[0] - inner[0], *inner, 2 * numbers[-1] - inner[-1]]
    return [axis.start + (e - axis.low) / ((axis.high - axis.low) or 1) * (axis.end - axis.start) for e in edges]


def _contrast(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#27272a" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def colour_bar_width(trace: Values, font_size: float) -> float:
    """Return the room that the colour bar of a heat map needs at the right, in pixels; 0 without one."""
    if trace.get("showscale") is False:
        return 0.0
    bar = trace.get("colorbar") or {}
    widest = max(text_width(text, font_size) for _, text in _bar_ticks(trace))
    title = max(text_width(line, font_size) for line in from_markup(title_text(bar)).split("\n"))
    return _GAP + max(BAR_PX + 5 + widest, title) + 4


def draw_colour_bar(drawing: Drawing, trace: Values, area: Area) -> None:
    """Draw the colour bar of a heat map at the right of the area, its title above."""
    size, left = float(drawing.font["size"]), area.left + area.width + _GAP
    title = title_text(trace.get("colorbar") or {})
    room = LINE * size * (from_markup(title).count("\n") + 1) + 4 if title else 0.0
    top, height = area.top + room, area.height - room
    drawing.add("rect", x=left, y=top, width=BAR_PX, height=height, fill=drawing.gradient(read_scale(trace)))
    for share, text in _bar_ticks(trace):
        drawing.text(text, left + BAR_PX + 5, top + (1 - share) * height)
    if title:
        drawing.text(title, left, area.top + (room - 4) / 2)


def _bar_ticks(trace: Values) -> list[tuple[float, str]]:
    bar, (low, high) = trace.get("colorbar") or {}, cell_range(trace)
    values = bar.get("tickvals") or multiples(low, high, round_step(high - low, _BAR_TICKS))
    form = str(bar.get("tickformat") or "")
    texts = bar.get("ticktext") or [format_number(value, form) for value in values]
    pairs = [((value - low) / ((high - low) or 1), str(text)) for value, text in zip(values, texts, strict=False)]
    return [(share, text) for share, text in pairs if -1e-9 <= share <= 1 + 1e-9]

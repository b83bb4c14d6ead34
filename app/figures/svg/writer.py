"""Writes a Plotly figure as SVG: the same text on every machine, since no browser and no font measures it.

It draws the part of Plotly that the project's figures use: ``scatter``, ``bar``, ``histogram``, ``heatmap`` and
``box``, several axes with domains, shapes, annotations, titles and legends. It refuses further types of traces.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from app.figures.svg.axes import Area, Axis, draw_axis, draw_grid, make_axis, outer_size
from app.figures.svg.bars import Bar, Slots, bin_values, box_figures, draw_bar_texts, draw_bars, draw_boxes, place_bars
from app.figures.svg.cells import colour_bar_width, draw_cells, draw_colour_bar, with_colour_axes
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.legend import Legend, legend_entries
from app.figures.svg.overlays import draw_annotations, draw_shapes, draw_title, title_height
from app.figures.svg.source import Values, at, read_figure
from app.figures.svg.traces import draw_lines, draw_points, points_of

_WIDTH: Final = 700.0
_HEIGHT: Final = 450.0
_MARGIN: Final = {"l": 80.0, "r": 80.0, "t": 100.0, "b": 80.0}
_FONT: Final = {"family": "sans-serif", "size": 12, "color": "#444"}


def to_svg(figure: go.Figure, *, width: str = "", height: str = "") -> str:
    """Return a figure as an SVG document.

    Args:
        figure: The figure; its width and height are in pixels.
        width: Width on paper with its unit, such as ``85mm``; by default the pixels of the figure.
        height: Height on paper, as ``width``.

    Raises:
        ValueError: A trace has a type that is not supported.
    """
    traces, layout = read_figure(figure)
    traces = [bin_values(trace) if trace["type"] == "histogram" else trace for trace in traces]
    traces = with_colour_axes(traces, layout)
    size = float(layout.get("width") or _WIDTH), float(layout.get("height") or _HEIGHT)
    font = {**_FONT, **(layout.get("font") or {})}
    title = str((layout.get("meta") or {}).get("title") or "") if isinstance(layout.get("meta"), Mapping) else ""
    drawing = Drawing(*size, title=title, font=font)
    legend = Legend(legend_entries(traces, layout), layout, width=0.9 * size[0], font_size=float(font["size"]))
    area, axes = _arrange(traces, layout, size, legend, float(font["size"]))
    _draw_below(drawing, traces, layout, axes, area, size)
    _draw_traces(drawing, traces, layout, axes)
    drawing.begin_group("above")
    draw_shapes(drawing, layout, axes, area, layer="above")
    for trace in traces:
        if trace["type"] == "heatmap" and trace.get("showscale") is not False:
            draw_colour_bar(drawing, trace, area)
    draw_annotations(drawing, layout, axes, area)
    legend.draw(drawing, area, size)
    draw_title(drawing, layout, area, size[0])
    return drawing.to_text(width=width or f"{size[0]:g}px", height=height or f"{size[1]:g}px")


def _arrange(
    traces: Sequence[Values], layout: Values, size: tuple[float, float], legend: Legend, font_size: float
) -> tuple[Area, Mapping[str, Axis]]:
    """Return the area inside the margins, which grow where ticks, legend or a colour bar need more, and the axes."""
    margin = {**_MARGIN, **(layout.get("margin") or {})}
    for _ in range(2):  # the ticks depend on the area, and the margins on the ticks
        area = Area(
            left=margin["l"],
            top=margin["t"],
            width=max(10.0, size[0] - margin["l"] - margin["r"]),
            height=max(10.0, size[1] - margin["t"] - margin["b"]),
        )
        axes = _make_axes(traces, layout, area)
        for axis in axes.values():
            if axis.options.get("automargin"):
                side = str(axis.options.get("side") or ("bottom" if axis.is_x else "left"))[0]
                margin[side] = max(margin[side], outer_size(axis, font_size) + 4)
        heading = title_height(layout, font_size)
        if legend.places and legend.options.get("yref") == "container":
            margin["b"] = max(margin["b"], legend.height + max(outer_size(a, font_size) for a in axes.values()) + 8)
        elif legend.places and legend.corner(area, size)[1] < heading:
            margin["t"] = max(margin["t"], heading + legend.height + 6)
        if legend.places and not legend.options.get("orientation") and "x" not in legend.options:
            margin["r"] = max(margin["r"], legend.width + 24)
        bars = [colour_bar_width(trace, font_size) for trace in traces if trace["type"] == "heatmap"]
        margin["r"] = max([margin["r"], *bars])
    return area, axes


def _make_axes(traces: Sequence[Values], layout: Values, area: Area) -> Mapping[str, Axis]:
    names = {"xaxis", "yaxis", *(name for name in layout if name[1:5] == "axis")}
    axes = {}
    for name in sorted(names):
        axis_id, options = name.replace("axis", ""), layout.get(name) or {}
        kind = axis_id[0]
        own = [trace for trace in traces if str(trace.get(f"{kind}axis") or kind) == axis_id]
        if not own and name not in layout:
            continue
        matched = options.get("matches")
        own += [trace for trace in traces if matched and str(trace.get(f"{kind}axis") or kind) == matched]
        values = [value for trace in own for value in _values(trace, kind)]
        has_bars = any(
            trace["type"] == "bar" and (trace.get("orientation") == "h") == (kind == "x") and "base" not in trace
            for trace in own
        )
        is_position = any(
            trace["type"] in ("bar", "box") and (trace.get("orientation") == "h") == (kind == "y") for trace in own
        )
        axes[axis_id] = make_axis(name, options, area, values, has_bars=has_bars, is_position=is_position)
    return axes


def _values(trace: Values, kind: str) -> list[Any]:
    """Return the values of a trace that its axis must hold."""
    values = trace.get(kind)
    if trace["type"] == "heatmap":
        rows = trace.get("z") or []
        count = max(map(len, rows), default=0) if kind == "x" else len(rows)
        known = list(values) if values is not None else list(range(count))
        if len(known) > 1 and not any(isinstance(value, str) for value in known):
            return [known[0] - (known[1] - known[0]) / 2, *known, known[-1] + (known[-1] - known[-2]) / 2]
        return known
    if trace["type"] == "box":
        is_level = trace.get("orientation") == "h" or ("x" in trace and "y" not in trace and "q1" not in trace)
        found = box_figures(trace, is_level=is_level)
        if is_level == (kind == "x"):
            return [value for _, figures, outliers in found for value in (*figures, *outliers)]
        return [position for position, _, _ in found]
    known = list(values) if values is not None else list(range(len(trace.get("y" if kind == "x" else "x") or ())))
    if trace["type"] == "bar":
        if "base" in trace and (trace.get("orientation") == "h") == (kind == "x"):
            bases = [at(trace["base"], number, 0) for number in range(len(known))]
            return bases + [base + value for base, value in zip(bases, known, strict=True)]
        if (
            known
            and all(isinstance(value, int | float) for value in known)
            and (kind == "y") == (trace.get("orientation") == "h")
        ):
            half = min((b - a for a, b in zip(sorted(known), sorted(known)[1:], strict=False)), default=1) / 2
            return [min(known) - half, *known, max(known) + half]
    errors = (trace.get(f"error_{kind}") or {}).get("array") or ()
    return known + [v + s * e for v, e in zip(known, errors, strict=False) for s in (1, -1) if v is not None and e]


def _draw_below(
    drawing: Drawing,
    traces: Sequence[Values],
    layout: Values,
    axes: Mapping[str, Axis],
    area: Area,
    size: tuple[float, float],
) -> None:
    drawing.begin_group("background")
    if paint("fill", layout.get("paper_bgcolor"))["fill"] != "none":
        drawing.add("rect", x=0, y=0, width=size[0], height=size[1], **paint("fill", layout.get("paper_bgcolor")))
    draw_shapes(drawing, layout, axes, area, layer="below")
    pairs = {_axes_of(trace) for trace in traces}
    for axis in axes.values():
        others = [pair[axis.is_x] for pair in sorted(pairs) if axis.id in pair]
        draw_grid(drawing, axis, [axes[other] for other in dict.fromkeys(others)])
    drawing.begin_group("axes")
    for axis in axes.values():
        draw_axis(drawing, axis, _edge(axis, axes, area))


def _edge(axis: Axis, axes: Mapping[str, Axis], area: Area) -> float:
    """Return the pixels of the line of an axis: at the end of its anchor, or free at its position."""
    anchor, is_far = str(axis.options.get("anchor") or ""), axis.options.get("side") in ("right", "top")
    if anchor == "free":
        share = float(axis.options.get("position", 0))
        return area.top + (1 - share) * area.height if axis.is_x else area.left + share * area.width
    other = axes.get(anchor) or axes.get("y" if axis.is_x else "x")
    if other is None:
        low, high = (area.top + area.height, area.top) if axis.is_x else (area.left, area.left + area.width)
        return high if is_far else low
    return other.end if is_far else other.start


def _draw_traces(drawing: Drawing, traces: Sequence[Values], layout: Values, axes: Mapping[str, Axis]) -> None:
    """Draw the traces of each pair of axes: bars and cells, areas and lines, then points and texts, as Plotly does."""
    for pair in dict.fromkeys(map(_axes_of, traces)):
        x, y = axes[pair[0]], axes[pair[1]]
        own = [trace for trace in traces if _axes_of(trace) == pair]
        left, right = sorted((x.start, x.end))
        top, bottom = sorted((y.start, y.end))
        clip = (left, top, right - left, bottom - top)
        drawing.begin_group("traces", clip=clip)
        slots = {kind: Slots([t for t in own if t["type"] == kind], layout) for kind in ("bar", "box")}
        below: list[tuple[float, float]] = []
        bars: dict[int, list[Bar]] = {}
        for trace in own:
            if trace["type"] == "heatmap":
                draw_cells(drawing, trace, x, y)
            elif trace["type"] == "bar":
                bars[trace["number"]] = list(place_bars(trace, x, y, slots["bar"]))
                draw_bars(drawing, trace, bars[trace["number"]])
            elif trace["type"] == "box":
                draw_boxes(drawing, trace, x, y, slots["box"])
        for trace in [trace for trace in own if trace["type"] == "scatter"]:
            draw_lines(drawing, trace, x, y, below=below)
            below = points_of(trace, x, y)
        for is_clipped in (True, False):
            chosen = [trace for trace in own if trace.get("cliponaxis", True) is is_clipped]
            drawing.begin_group("points", clip=_grow(clip) if is_clipped else None)
            for trace in chosen:
                if trace["type"] == "scatter":
                    draw_points(drawing, trace, x, y)
                elif trace["number"] in bars:
                    draw_bar_texts(drawing, trace, bars[trace["number"]])


def _grow(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return a rectangle that leaves room for markers at its border."""
    return box[0] - 6, box[1] - 6, box[2] + 12, box[3] + 12


def _axes_of(trace: Values) -> tuple[str, str]:
    return str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")

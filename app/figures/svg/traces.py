"""Traces: lines, markers, texts and areas of ``scatter``; bars and cells have modules of their own."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.figures.svg.axes import Axis
from app.figures.svg.colours import colours_of
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.markers import Point, draw_marker
from app.figures.svg.source import Values, at
from app.figures.text import LINE, from_markup

_DASHES: Final = {"dash": (5, 3), "dot": (1.5, 3), "dashdot": (6, 3, 1.5, 3), "longdash": (9, 4)}
_MAX_MARKERS_BY_DEFAULT: Final = 20


def points_of(trace: Values, x: Axis, y: Axis) -> list[Point]:
    """Return the places of the points of a trace; nan where a value is missing."""
    xs, ys = trace.get("x"), trace.get("y")
    count = len(xs if xs is not None else ys or ())
    xs = xs if xs is not None else _series(trace.get("x0", 0), trace.get("dx", 1), count)
    ys = ys if ys is not None else _series(trace.get("y0", 0), trace.get("dy", 1), count)
    return [(x.place(one), y.place(other)) for one, other in zip(xs, ys, strict=False)]


def _series(first: float, step: float, count: int) -> list[float]:
    return [first + step * number for number in range(count)]


def mode_of(trace: Values) -> Sequence[str]:
    """Return the parts of a scatter trace that are drawn."""
    count = len(trace.get("x") or trace.get("y") or ())
    default = "lines+markers" if count < _MAX_MARKERS_BY_DEFAULT and not trace.get("fill") else "lines"
    return str(trace.get("mode") or default).split("+")


def line_look(line: Values, default: str, opacity: float = 1.0) -> dict[str, Any]:
    """Return the attributes of a line."""
    width = float(line.get("width", 2))
    dash = str(line.get("dash") or "solid")
    parts = [float(part.removesuffix("px")) for part in dash.replace(",", " ").split()] if "px" in dash else ()
    lengths = parts or [length * max(1.0, width) for length in _DASHES.get(dash, ())]
    look = paint("stroke", str(line.get("color") or default), opacity if width else 0)
    return {
        **look,
        "stroke_width": width,
        "stroke_linejoin": "round",
        "stroke_dasharray": " ".join(f"{length:g}" for length in lengths) or None,
    }


def draw_lines(drawing: Drawing, trace: Values, x: Axis, y: Axis, *, below: Sequence[Point] = ()) -> None:
    """Draw the area and the line of a scatter trace; ``below`` are the points of the trace to fill to."""
    points, opacity = points_of(trace, x, y), float(trace.get("opacity", 1))
    line = trace.get("line") or {}
    colour = str(line.get("color") or _marker_colour(trace))
    for part in _split(points):
        corners = _step(part, str(line.get("shape") or "linear"))
        if fill := trace.get("fill"):
            _draw_area(drawing, trace, corners, x, y, below, str(fill), colour, opacity)
        if "lines" in mode_of(trace) and len(corners) > 1:
            drawing.polyline(corners, **line_look(line, colour, opacity))


def draw_points(drawing: Drawing, trace: Values, x: Axis, y: Axis) -> None:
    """Draw error bars, markers and texts of a scatter trace."""
    points, mode = points_of(trace, x, y), mode_of(trace)
    for name, axis in (("error_x", x), ("error_y", y)):
        _draw_errors(drawing, trace, points, axis, trace.get(name) or {})
    if "markers" in mode:
        marker, opacity = trace.get("marker") or {}, float(trace.get("opacity", 1))
        line = marker.get("line") or {}
        colours = colours_of(marker, len(points), default=_marker_colour(trace))
        for number, (place, colour) in enumerate(zip(points, colours, strict=True)):
            if math.isnan(sum(place)):
                continue
            draw_marker(
                drawing,
                str(at(marker.get("symbol"), number, "circle")),
                place,
                size=float(at(marker.get("size"), number, 6)),
                colour=colour,
                opacity=opacity * float(at(marker.get("opacity"), number, 1)),
                line=(str(at(line.get("color"), number, colour)), float(at(line.get("width"), number, 0))),
            )
    if "text" in mode:
        _draw_texts(drawing, trace, points, has_markers="markers" in mode)


def _draw_texts(drawing: Drawing, trace: Values, points: Sequence[Point], *, has_markers: bool) -> None:
    """Draw the texts beside the points, where plotly.js puts them."""
    font, base = trace.get("textfont") or {}, float(drawing.font["size"])
    for number, place in enumerate(points):
        text = str(at(trace.get("text"), number, ""))
        if not text or math.isnan(sum(place)):
            continue
        size = float(at(font.get("size"), number, base))
        upright, _, level = str(at(trace.get("textposition"), number, "middle center")).partition(" ")
        marker = float(at((trace.get("marker") or {}).get("size"), number, 6))
        reach = marker / 2 / 0.8 + 1 if has_markers else 0.0
        height = (from_markup(text).count("\n") * LINE + 1) * size
        down, right = {"top": -1, "bottom": 1}.get(upright, 0), {"left": -1, "right": 1}.get(level, 0)
        baseline = place[1] + 0.75 * size + down * reach + (down - 1) * height / 2
        align = {"left": "right", "right": "left"}.get(level, "center")
        colour = at(font.get("color"), number)
        drawing.text(text, place[0] + right * reach, place[1], align=align, size=size, colour=colour, baseline=baseline)


def _marker_colour(trace: Values) -> str:
    colour = (trace.get("marker") or {}).get("color")
    return colour if isinstance(colour, str) else str((trace.get("line") or {}).get("color") or trace["default_colour"])


def _split(points: Iterable[Point]) -> list[list[Point]]:
    """Return the runs of points without a missing value."""
    parts: list[list[Point]] = [[]]
    for place in points:
        if math.isnan(sum(place)):
            parts.append([])
        else:
            parts[-1].append(place)
    return [part for part in parts if part]


def _step(points: Sequence[Point], shape: str) -> list[Point]:
    """Return the corners of a line, with those of steps ``hv`` or ``vh`` between its points."""
    if shape not in ("hv", "vh"):
        return list(points)
    corners = [points[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        corners += [(x1, y0) if shape == "hv" else (x0, y1), (x1, y1)]
    return corners


def _draw_area(
    drawing: Drawing,
    trace: Values,
    corners: Sequence[Point],
    x: Axis,
    y: Axis,
    below: Sequence[Point],
    fill: str,
    colour: str,
    opacity: float,
) -> None:
    ends: list[Point] = []
    if fill == "tozeroy" or (fill == "tonexty" and not below):
        base = y.place(0) if not y.is_log else y.start
        ends = [(corners[-1][0], base), (corners[0][0], base)]
    elif fill == "tozerox":
        ends = [(x.place(0), corners[-1][1]), (x.place(0), corners[0][1])]
    elif fill == "tonexty":
        ends = [place for place in reversed(below) if not math.isnan(sum(place))]
    given = trace.get("fillcolor")
    look = paint("fill", str(given), opacity) if given else paint("fill", colour, 0.5 * opacity)
    drawing.polygon([*corners, *ends], **look)


def _draw_errors(drawing: Drawing, trace: Values, points: Sequence[Point], axis: Axis, error: Values) -> None:
    above = error.get("array")
    if not above or error.get("visible") is False:
        return
    under = error.get("arrayminus") if error.get("symmetric") is False or error.get("arrayminus") else above
    values = trace.get("x" if axis.is_x else "y") or []
    look = {**paint("stroke", str(error.get("color") or _marker_colour(trace)))}
    look["stroke_width"] = float(error.get("thickness", 1.5))
    cap = float(error.get("width", 4))
    for number, (px, py) in enumerate(points):
        plus, minus = at(above, number, 0), at(under, number, 0)
        if math.isnan(px + py):
            continue
        ends = [axis.place(values[number] + plus), axis.place(values[number] - minus)]
        if math.isnan(sum(ends)):
            continue
        if axis.is_x:
            drawing.add("line", x1=ends[0], x2=ends[1], y1=py, y2=py, **look)
            caps = [{"x1": end, "x2": end, "y1": py - cap, "y2": py + cap} for end in ends]
        else:
            drawing.add("line", x1=px, x2=px, y1=ends[0], y2=ends[1], **look)
            caps = [{"x1": px - cap, "x2": px + cap, "y1": end, "y2": end} for end in ends]
        for bar in caps:
            drawing.add("line", **bar, **look)

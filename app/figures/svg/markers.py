"""Markers: the symbols of Plotly that the figures use, as closed areas or strokes around a point."""

import math
from collections.abc import Sequence
from typing import Final

from app.figures.svg.drawing import Drawing, paint

Point = tuple[float, float]

_C: Final = math.sqrt(3) / 2
_THIRD: Final = 0.4
_X: Final = 1 / math.sqrt(2)


def _turn(points: Sequence[Point], degrees: float) -> tuple[Point, ...]:
    sin, cos = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in points)


_TRIANGLE: Final = ((0.0, -1.15), (_C * 1.15, 0.575), (-_C * 1.15, 0.575))
_CROSS: Final = tuple(
    point for quarter in range(4) for point in _turn(((_THIRD, -_THIRD), (1.2, -_THIRD), (1.2, _THIRD)), 90 * quarter)
)
_STAR: Final = tuple(
    (radius * math.sin(math.pi * corner / 5), -radius * math.cos(math.pi * corner / 5))
    for corner in range(10)
    for radius in ((1.4, 0.535)[corner % 2],)
)
AREAS: Final[dict[str, tuple[Point, ...]]] = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": _TRIANGLE,
    "triangle-down": _turn(_TRIANGLE, 180),
    "triangle-left": _turn(_TRIANGLE, -90),
    "triangle-right": _turn(_TRIANGLE, 90),
    "cross": _CROSS,
    "x": _turn(_CROSS, 45),
    "star": _STAR,
    "pentagon": tuple(
        (math.sin(math.tau * corner / 5) * 1.05, -math.cos(math.tau * corner / 5) * 1.05) for corner in range(5)
    ),
    "hexagon": tuple((math.sin(math.tau * corner / 6), -math.cos(math.tau * corner / 6)) for corner in range(6)),
}
"""Corners of the filled symbols at a radius of 1."""
STROKES: Final[dict[str, tuple[tuple[Point, Point], ...]]] = {
    "line-ew": (((-1.4, 0), (1.4, 0)),),
    "line-ns": (((0, -1.4), (0, 1.4)),),
    "line-ne": (((-1, 1), (1, -1)),),
    "line-nw": (((-1, -1), (1, 1)),),
    "cross-thin": (((-1.4, 0), (1.4, 0)), ((0, -1.4), (0, 1.4))),
    "x-thin": (((-1, -1), (1, 1)), ((-1, 1), (1, -1))),
}
"""Lines of the thin symbols at a radius of 1."""
SYMBOLS: Final = ("circle", *AREAS, *STROKES)


def draw_marker(
    drawing: Drawing,
    symbol: str,
    place: Point,
    *,
    size: float,
    colour: str,
    opacity: float = 1.0,
    line: tuple[str, float] | None = None,
) -> None:
    """Draw one marker.

    Args:
        drawing: The document.
        symbol: Plotly's name; ``-open`` is hollow, ``-dot`` has a point in the middle, unknown ones are circles.
        place: Its middle in pixels.
        size: Diameter in pixels.
        colour: Colour of the area, or of the lines of an open or thin symbol.
        opacity: Of the whole marker.
        line: Colour and width in pixels of the outline; of a thin symbol, of its lines.
    """
    name, is_open = symbol.replace("-open", ""), "-open" in symbol
    name = name.replace("-dot", "")
    inner = next((part for part in ("-x", "-cross") if name.endswith(part) and name not in SYMBOLS), "")
    name = name.removesuffix(inner)
    x, y = place
    radius = size / 2
    outline, width = line or (colour, 0.0)
    if name in STROKES:
        stroke = {**paint("stroke", colour if is_open else outline, opacity), "stroke_width": width or 1.0}
        for (x1, y1), (x2, y2) in STROKES[name]:
            drawing.add(
                "line", x1=x + x1 * radius, y1=y + y1 * radius, x2=x + x2 * radius, y2=y + y2 * radius, **stroke
            )
        return
    look = paint("fill", None if is_open else colour, opacity)
    if is_open or width:
        look |= {**paint("stroke", colour if is_open else outline, opacity), "stroke_width": width or 1.0}
    if name in AREAS:
        drawing.polygon([(x + dx * radius, y + dy * radius) for dx, dy in AREAS[name]], **look)
    else:
        drawing.add("circle", cx=x, cy=y, r=radius, **look)
    if inner:
        thin = "x-thin" if inner == "-x" else "cross-thin"
        share = 1.0 if name == "square" else 0.7
        stroke_line = (colour, width or 1.0)
        draw_marker(drawing, thin, place, size=size * share, colour=colour, opacity=opacity, line=stroke_line)

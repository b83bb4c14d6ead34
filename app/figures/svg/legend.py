"""The legend of a figure: entries in a row that breaks, or below each other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from app.figures.svg.axes import Area
from app.figures.svg.colours import colours_of
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.markers import draw_marker
from app.figures.svg.source import Values, at
from app.figures.svg.traces import line_look, mode_of
from app.figures.text import LINE, from_markup, text_width

_SIGN: Final = 2.2
"""Width of a sign in font sizes."""


def legend_entries(traces: Sequence[Values], layout: Values) -> list[Values]:
    """Return the traces that the legend lists: those with a name, one of each group that shares an entry."""
    shown = [t for t in traces if t.get("showlegend", t["type"] != "heatmap") and t.get("name")]
    is_listed = layout.get("showlegend")
    if is_listed is None:
        is_listed = len(shown) > 1 or any(trace.get("showlegend") for trace in traces)
    return shown if is_listed else []


class Legend:
    """The entries of a legend and their places relative to its corner, in pixels."""

    def __init__(self, entries: Sequence[Values], layout: Values, *, width: float, font_size: float) -> None:
        """Arrange the entries in at most ``width`` pixels."""
        options = layout.get("legend") or {}
        self.options, self.size = options, float((options.get("font") or {}).get("size") or font_size)
        is_level = options.get("orientation") == "h"
        line, left, top, self.width = LINE * self.size + 3, 0.0, 0.0, 0.0
        self.places: list[tuple[Values, float, float]] = []
        for entry in entries:
            extent = (_SIGN + 0.5) * self.size + text_width(from_markup(str(entry["name"])), self.size)
            if self.places and (not is_level or left + extent > width):
                left, top = 0.0, top + line
            self.places.append((entry, left, top + line / 2))
            self.width = max(self.width, left + extent)
            left += extent + self.size
        self.height = top + line if entries else 0.0

    def corner(self, area: Area, size: tuple[float, float]) -> tuple[float, float]:
        """Return the left and top of the legend in a figure of a size, by its place in the layout."""
        is_level = self.options.get("orientation") == "h"
        x, y = (
            float(self.options.get("x", 0 if is_level else 1.02)),
            float(self.options.get("y", -0.1 if is_level else 1)),
        )
        anchor_x, anchor_y = self.options.get("xanchor", "left"), self.options.get("yanchor", "top")
        if self.options.get("xref") == "container":
            area = replace(area, left=0.0, width=size[0])
        if self.options.get("yref") == "container":
            area = replace(area, top=0.0, height=size[1] - 4)
        left = area.left + x * area.width - {"right": 1.0, "center": 0.5}.get(anchor_x, 0.0) * self.width
        top = area.top + (1 - y) * area.height
        return left, top - {"bottom": 1.0, "middle": 0.5}.get(anchor_y, 0.0) * self.height

    def draw(self, drawing: Drawing, area: Area, size: tuple[float, float]) -> None:
        """Draw signs and names in a figure of a size."""
        left, top = self.corner(area, size)
        colour = (self.options.get("font") or {}).get("color")
        for entry, x, y in self.places:
            _draw_sign(drawing, entry, left + x, top + y, self.size)
            place = left + x + (_SIGN + 0.5) * self.size
            drawing.text(str(entry["name"]), place, top + y, size=self.size, colour=colour)


def _draw_sign(drawing: Drawing, trace: Values, x: float, y: float, size: float) -> None:
    marker: dict[str, Any] = trace.get("marker") or {}
    colour = colours_of(marker, 1, default=trace["default_colour"])[0]
    if trace["type"] == "scatter":
        mode, line = mode_of(trace), trace.get("line") or {}
        if trace.get("fill"):
            given, stroke = trace.get("fillcolor"), str(line.get("color") or colour)
            look = paint("fill", str(given)) if given else paint("fill", stroke, 0.5)
            drawing.add("rect", x=x, y=y, width=_SIGN * size, height=size / 2, **look)
        if "lines" in mode:
            default = colour if marker.get("color") else str(line.get("color") or trace["default_colour"])
            drawing.polyline([(x, y), (x + _SIGN * size, y)], **line_look(line, default))
        if "markers" in mode:
            edge = marker.get("line") or {}
            default = str(line.get("color") or colour) if not marker.get("color") else colour
            outline = (str(at(edge.get("color"), 0, colour)), float(at(edge.get("width"), 0, 0)))
            width = min(size, float(at(marker.get("size"), 0, 6)))
            symbol = str(at(marker.get("symbol"), 0, "circle"))
            draw_marker(drawing, symbol, (x + _SIGN * size / 2, y), size=width, colour=default, line=outline)
        return
    box = {"x": x + (_SIGN - 1) * size / 2, "y": y - size / 2, "width": size, "height": size}
    opacity = float(trace.get("opacity", 1)) * float(at(marker.get("opacity"), 0, 1))
    if trace["type"] == "box":
        colour = str((trace.get("line") or {}).get("color") or colour)
    drawing.add("rect", **box, **paint("fill", colour, opacity))
    pattern = marker.get("pattern") or {}
    if shape := at(pattern.get("shape"), 0):
        ink = str(at(pattern.get("fgcolor"), 0, drawing.font["color"]))
        solidity = float(at(pattern.get("solidity"), 0, 0.3))
        fill = drawing.hatch(ink, None, shape=str(shape), size=float(at(pattern.get("size"), 0, 8)), solidity=solidity)
        drawing.add("rect", **box, fill=fill)

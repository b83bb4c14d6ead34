"""Bars, histograms and boxes."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from app.figures.svg.axes import Axis
from app.figures.svg.colours import colours_of
from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.markers import draw_marker
from app.figures.svg.source import Values, at

Bar = tuple[int, str, tuple[float, float, float, float]]
"""The number of a bar in its trace, its colour, and left, top, width and height in pixels."""


class Slots:
    """The places of bars and boxes side by side: which traces share a place, and the bars stacked so far."""

    def __init__(self, traces: Sequence[Values], layout: Values) -> None:
        """Read the mode and the gaps of the layout for the traces of one kind."""
        self.mode = str(layout.get("barmode") or "group")
        self.gap, self.group_gap = float(layout.get("bargap", 0.2)), float(layout.get("bargroupgap", 0))
        self.box_mode = str(layout.get("boxmode") or "overlay")
        self.groups = list(dict.fromkeys(trace.get("offsetgroup") or trace["number"] for trace in traces))
        self._heights = dict[tuple[float, bool], float]()

    def share(self, trace: Values, spacing: float, *, mode: str) -> tuple[float, float]:
        """Return the middle, relative to the position, and the width of a trace's bars."""
        whole = spacing * (1 - self.gap)
        if mode != "group" or len(self.groups) < 2:
            return 0.0, whole
        width = whole / len(self.groups)
        place = self.groups.index(trace.get("offsetgroup") or trace["number"])
        return (place + 0.5) * width - whole / 2, width * (1 - self.group_gap)

    def stack(self, position: float, value: float) -> float:
        """Return the base of a bar, and put the bar on it."""
        if self.mode not in ("stack", "relative"):
            return 0.0
        key = position, value < 0
        base = self._heights.get(key, 0.0)
        self._heights[key] = base + value
        return base


def bin_values(trace: Values) -> Values:
    """Return a histogram as a bar trace, in the bins of the trace or in ten equal ones."""
    is_level = "y" in trace and "x" not in trace
    values = np.array([v for v in trace.get("y" if is_level else "x") or () if isinstance(v, int | float)], float)
    bins = trace.get("ybins" if is_level else "xbins") or {}
    if {"start", "end", "size"} <= bins.keys():
        count = max(1, round((bins["end"] - bins["start"]) / bins["size"]))
        edges = bins["start"] + bins["size"] * np.arange(count + 1)
    else:
        edges = np.histogram_bin_edges(values, bins=int(trace.get("nbinsx") or 10))
    counts = np.histogram(values, edges)[0].astype(float)
    if "probability" in str(trace.get("histnorm")):
        counts /= max(1, len(values))
    middles, widths = ((edges[:-1] + edges[1:]) / 2).tolist(), np.diff(edges).tolist()
    places = {"y": middles, "x": counts.tolist()} if is_level else {"x": middles, "y": counts.tolist()}
    return {**trace, **places, "type": "bar", "width": widths, "orientation": "h" if is_level else "v"}


def place_bars(trace: Values, x: Axis, y: Axis, slots: Slots) -> Iterator[Bar]:
    """Yield the bars of a trace that have a place."""
    is_level = trace.get("orientation") == "h"
    along, across = (x, y) if is_level else (y, x)
    values, positions = trace.get("x" if is_level else "y") or (), trace.get("y" if is_level else "x")
    positions = list(range(len(values))) if positions is None else positions
    marker, spacing = trace.get("marker") or {}, _spacing([across.number(position) for position in positions])
    shift, default_width = slots.share(trace, spacing, mode=slots.mode)
    colours = colours_of(marker, len(values), default=trace["default_colour"])
    for number, value in enumerate(values):
        position, length = across.number(at(positions, number)), _number(value)
        if math.isnan(position + length):
            continue
        width = float(at(trace.get("width"), number, default_width))
        offset = at(trace.get("offset"), number)
        middle = position + (shift if trace.get("width") is None else 0.0)
        middle = middle if offset is None else position + offset + width / 2
        given = at(trace.get("base"), number)
        base = slots.stack(position, length) if given is None else float(given)
        ends = along.start if along.is_log and base <= 0 else along.place(base), along.place(base + length)
        first, last = sorted(ends)
        low, high = sorted((_place(across, middle - width / 2), _place(across, middle + width / 2)))
        box = (first, low, last - first, high - low) if is_level else (low, first, high - low, last - first)
        if math.isnan(first + last):
            continue
        yield number, colours[number], box


def draw_bars(drawing: Drawing, trace: Values, bars: Sequence[Bar]) -> None:
    """Draw the bars of a trace."""
    for number, colour, box in bars:
        _draw_bar(drawing, trace, trace.get("marker") or {}, number, colour, box)


def draw_bar_texts(drawing: Drawing, trace: Values, bars: Sequence[Bar]) -> None:
    """Draw the texts in the bars or at their ends."""
    for number, _, box in bars:
        _draw_bar_text(drawing, trace, number, box, is_level=trace.get("orientation") == "h")


def _place(axis: Axis, number: float) -> float:
    """Return the pixels of a number on the scale of the range, also between categories."""
    return axis.start + (number - axis.low) / ((axis.high - axis.low) or 1) * (axis.end - axis.start)


def _draw_bar(
    drawing: Drawing,
    trace: Values,
    marker: Mapping[str, Any],
    number: int,
    colour: str,
    box: tuple[float, float, float, float],
) -> None:
    opacity = float(trace.get("opacity", 1)) * float(at(marker.get("opacity"), number, 1))
    line = marker.get("line") or {}
    width = float(at(line.get("width"), number, 0))
    edge = {**paint("stroke", str(at(line.get("color"), number, colour)), opacity), "stroke_width": width}
    place = dict(zip(("x", "y", "width", "height"), box, strict=True))
    drawing.add("rect", **place, **paint("fill", colour, opacity), **(edge if width else {}))
    pattern = marker.get("pattern") or {}
    if shape := at(pattern.get("shape"), number):
        ink = str(at(pattern.get("fgcolor"), number, drawing.font["color"]))
        size, solidity = float(at(pattern.get("size"), number, 8)), float(at(pattern.get("solidity"), number, 0.3))
        drawing.add("rect", **place, fill=drawing.hatch(ink, None, shape=str(shape), size=size, solidity=solidity))


def _draw_bar_text(
    drawing: Drawing, trace: Values, number: int, box: tuple[float, float, float, float], *, is_level: bool
) -> None:
    text, where = str(at(trace.get("text"), number, "")), str(at(trace.get("textposition"), number, "auto"))
    if not text or where == "none":
        return
    left, top, width, height = box
    font = trace.get("textfont") or {}
    size, colour = float(at(font.get("size"), number, drawing.font["size"])), at(font.get("color"), number)
    if where == "outside" and is_level:
        drawing.text(text, left + width + 4, top + height / 2, size=size, colour=colour)
    else:
        y = top - 0.7 * size if where == "outside" else top + height / 2
        drawing.text(text, left + width / 2, y, align="center", size=size, colour=colour)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _spacing(positions: Sequence[float]) -> float:
    """Return the least distance of two positions, 1 if there is none."""
    known = sorted({position for position in positions if not math.isnan(position)})
    return min((b - a for a, b in itertools.pairwise(known)), default=1.0)


def draw_boxes(drawing: Drawing, trace: Values, x: Axis, y: Axis, slots: Slots) -> None:
    """Draw the boxes of a trace: of its quartiles, or of its values, with whiskers of 1.5 times the box."""
    is_level = trace.get("orientation") == "h" or ("x" in trace and "y" not in trace and "q1" not in trace)
    along, across = (x, y) if is_level else (y, x)
    colour = str((trace.get("line") or {}).get("color") or (trace.get("marker") or {}).get("color"))
    colour = trace["default_colour"] if colour == "None" else colour
    for position, found, outliers in box_figures(trace, is_level=is_level):
        place = across.number(position)
        shift, width = slots.share(trace, 1.0, mode=slots.box_mode)
        width = float(trace.get("width") or 0.6 * width)
        low, middle, high = (_place(across, place + shift + part * width) for part in (-0.5, 0, 0.5))
        q1, median, q3, lower, upper = (along.place(value) for value in found)
        stroke = {**paint("stroke", colour), "stroke_width": float((trace.get("line") or {}).get("width", 1.5))}
        fill = paint("fill", trace.get("fillcolor")) if trace.get("fillcolor") else paint("fill", colour, 0.5)
        corners = [(q1, low), (q3, low), (q3, high), (q1, high)]
        turn = (lambda point: point) if is_level else (lambda point: (point[1], point[0]))
        drawing.polygon([turn(corner) for corner in corners], **fill, **stroke)
        for one, other in (
            ((median, low), (median, high)),
            ((q1, middle), (lower, middle)),
            ((q3, middle), (upper, middle)),
            ((lower, (low + middle) / 2), (lower, (high + middle) / 2)),
            ((upper, (low + middle) / 2), (upper, (high + middle) / 2)),
        ):
            drawing.polyline([turn(one), turn(other)], **stroke)
        for value in outliers:
            draw_marker(drawing, "circle", turn((along.place(value), middle)), size=5, colour=colour)


def box_figures(trace: Values, *, is_level: bool) -> list[tuple[Any, tuple[float, ...], list[float]]]:
    """Return the position of each box, its quartiles and whiskers (q1, median, q3, lower, upper), and the outliers."""
    values, positions = (trace.get("x"), trace.get("y")) if is_level else (trace.get("y"), trace.get("x"))
    name = trace.get("name") or 0
    if trace.get("q1"):
        rows = zip(*(trace[key] for key in ("q1", "median", "q3", "lowerfence", "upperfence")), strict=True)
        return [(at(positions, number, name), tuple(row), []) for number, row in enumerate(rows)]
    grouped: dict[Any, list[float]] = {}
    for number, value in enumerate(values or ()):
        if isinstance(value, int | float) and not math.isnan(value):
            grouped.setdefault(at(positions, number, name), []).append(float(value))
    found: list[tuple[Any, tuple[float, ...], list[float]]] = []
    for position, group in grouped.items():
        q1, median, q3 = np.percentile(group, (25, 50, 75)).tolist()
        reach = 1.5 * (q3 - q1)
        inside = [value for value in group if q1 - reach <= value <= q3 + reach]
        outliers = [value for value in group if value not in inside] if trace.get("boxpoints") is not False else []
        found.append((position, (q1, median, q3, min(inside), max(inside)), outliers))
    return found

"""Axes: from values to pixels, ticks, grid lines and titles."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.figures.svg.drawing import Drawing, paint
from app.figures.svg.source import Values
from app.figures.svg.ticks import format_number, multiples, round_step
from app.figures.text import LINE, from_markup, text_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """The part of the figure inside the margins, in pixels."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a figure."""

    id: str
    """As traces name it: ``x``, ``y2``."""
    options: Values
    start: float
    """Pixels of the lower end of the range; for ``y`` the bottom."""
    end: float
    low: float
    """Values of the range; ``low`` is greater than ``high`` on a reversed axis."""
    high: float
    categories: tuple[str, ...] | None
    """Texts at 0, 1, 2, ...; None on an axis of numbers."""
    has_grid: bool
    """Whether it has grid lines."""

    @property
    def is_x(self) -> bool:
        """Whether the axis is horizontal."""
        return self.id.startswith("x")

    @property
    def is_log(self) -> bool:
        """Whether the range is that of decimal logarithms."""
        return self.options.get("type") == "log"

    def place(self, value: Any) -> float:
        """Return the pixels of a value; nan for one that has no place."""
        number = self.number(value)
        return self.start + (number - self.low) / ((self.high - self.low) or 1) * (self.end - self.start)

    def number(self, value: Any) -> float:
        """Return a value on the scale of the range: the position of a category, or the logarithm."""
        if value is None:
            return math.nan
        if self.categories is not None and not isinstance(value, int | float):
            return float(self.categories.index(str(value))) if str(value) in self.categories else math.nan
        if not isinstance(value, int | float):
            return math.nan
        if self.is_log:
            return math.log10(value) if value > 0 else math.nan
        return float(value)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the pixels and the text of each tick in the range."""
        values = self.options.get("tickvals")
        if values is not None:
            texts = self.options.get("ticktext") or [self._write(value) for value in values]
            pairs = [(self.place(value), str(text)) for value, text in zip(values, texts, strict=False)]
        elif self.categories is not None:
            pairs = [(self.place(number), text) for number, text in enumerate(self.categories)]
        else:
            steps = [10**value if self.is_log else value for value in self._steps()]
            pairs = [(self.place(value), self._write(value)) for value in steps]
        low, high = sorted((self.start, self.end))
        return [(place, text) for place, text in pairs if low - 0.5 <= place <= high + 0.5]

    def _steps(self) -> list[float]:
        low, high = sorted((self.low, self.high))
        step = self.options.get("dtick")
        if not isinstance(step, int | float) or step <= 0:
            step = round_step(high - low, abs(self.end - self.start) / (70 if self.is_x else 36))
            step = max(1.0, step) if self.is_log else step
        return multiples(low, high, step)

    def _write(self, value: Any) -> str:
        if not isinstance(value, int | float):
            return str(value)
        form = str(self.options.get("tickformat") or "")
        return format_number(value, form) + str(self.options.get("ticksuffix") or "")


def make_axis(
    name: str, options: Values, area: Area, values: Sequence[Any], *, has_bars: bool, is_position: bool = False
) -> Axis:
    """Return an axis of the layout.

    Args:
        name: As in the layout: ``xaxis2``.
        options: Its options.
        area: The area that its domain divides.
        values: All values that traces place on it.
        has_bars: Whether bars grow from 0 along it.
        is_position: Whether bars or boxes stand side by side along it; it has no grid by default then, as in Plotly.
    """
    axis_id = name.replace("axis", "")
    low_share, high_share = options.get("domain") or (0, 1)
    is_x = axis_id.startswith("x")
    if is_x:
        start, end = area.left + low_share * area.width, area.left + high_share * area.width
    else:
        start, end = area.top + (1 - low_share) * area.height, area.top + (1 - high_share) * area.height
    categories = _categories(options, values)
    given = options.get("range")
    if given and None not in given:
        low, high = (categories.index(v) if categories and v in categories else float(v) for v in given)
    else:
        low, high = _find_range(options, values, categories, has_bars=has_bars)
    if options.get("autorange") == "reversed" and not given:
        low, high = high, low
    return Axis(
        id=axis_id,
        options=options,
        start=start,
        end=end,
        low=low,
        high=high,
        categories=categories,
        has_grid=bool(options.get("showgrid", not is_position)),
    )


def _categories(options: Values, values: Sequence[Any]) -> tuple[str, ...] | None:
    is_text = options.get("type") == "category" or any(isinstance(value, str) for value in values)
    if not is_text or options.get("type") in ("linear", "log"):
        return None
    given = [str(value) for value in options.get("categoryarray") or ()]
    return tuple(dict.fromkeys([*given, *(str(value) for value in values if value is not None)]))


def _find_range(
    options: Values, values: Sequence[Any], categories: Sequence[str] | None, *, has_bars: bool
) -> tuple[float, float]:
    if categories is not None:
        return -0.5, max(0.5, len(categories) - 0.5)
    numbers = [float(value) for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if options.get("type") == "log":
        numbers = [math.log10(value) for value in numbers if value > 0]
    if has_bars or options.get("rangemode") == "tozero":
        numbers.append(0.0)
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    pad = 0.06 * (high - low) or 0.5
    keeps_zero = has_bars or options.get("rangemode") == "tozero"
    return (0.0 if keeps_zero and low == 0 else low - pad), (0.0 if keeps_zero and high == 0 else high + pad)


def title_text(options: Mapping[str, Any]) -> str:
    """Return the markup of a title, or an empty text."""
    title = options.get("title") or {}
    return str((title.get("text") if isinstance(title, Mapping) else title) or "")


def is_visible(options: Values) -> bool:
    """Return whether an axis has lines and texts."""
    return bool(options.get("visible", True))


def label_size(options: Values, font_size: float) -> float:
    """Return the font size of the ticks in pixels."""
    return float((options.get("tickfont") or {}).get("size") or font_size)


def outer_size(axis: Axis, font_size: float) -> float:
    """Return the room that ticks and title of an axis need beside the area, in pixels."""
    if not is_visible(axis.options):
        return 0.0
    size = label_size(axis.options, font_size)
    texts = [text for _, text in axis.ticks()] if axis.options.get("showticklabels", True) else []
    extent = max(
        (_extent(text, size, angle=axis.options.get("tickangle"), is_x=axis.is_x) for text in texts), default=0
    )
    title = title_text(axis.options)
    lines = from_markup(title).count("\n") + 1 if title else 0
    return 8 + extent + (LINE * _title_size(axis.options, font_size) * lines + 6 if title else 0)


def _extent(markup: str, size: float, *, angle: float | None, is_x: bool) -> float:
    lines = from_markup(markup).split("\n")
    width, height = max(text_width(line, size) for line in lines), LINE * size * len(lines)
    turned = math.radians(abs(angle or 0))
    if is_x:
        return width * math.sin(turned) + height * math.cos(turned)
    return width * math.cos(turned) + height * math.sin(turned)


def _title_size(options: Values, font_size: float) -> float:
    title = options.get("title")
    font = title.get("font") if isinstance(title, Mapping) else None
    return float((font or {}).get("size") or font_size)


def draw_grid(drawing: Drawing, axis: Axis, across: Iterable[Axis]) -> None:
    """Draw the grid lines and the zero line of an axis through the axes that cross it."""
    options = axis.options
    if not is_visible(options):
        return
    for other in across:
        ends = (other.start, other.end)
        if axis.has_grid:
            for place, _ in axis.ticks():
                _line(drawing, axis, place, ends, options.get("gridcolor", "#e5e5e5"), options.get("gridwidth", 1))
        has_zero = axis.categories is None and not axis.is_log and options.get("zeroline", axis.has_grid)
        if has_zero and min(axis.low, axis.high) <= 0 <= max(axis.low, axis.high):
            _line(drawing, axis, axis.place(0), ends, options.get("zerolinecolor", "#ccc"), 1)


def _line(drawing: Drawing, axis: Axis, place: float, ends: tuple[float, float], colour: str, width: float) -> None:
    x1, x2, y1, y2 = (place, place, *ends) if axis.is_x else (*ends, place, place)
    drawing.add("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke_width=width, **paint("stroke", colour))


def draw_axis(drawing: Drawing, axis: Axis, edge: float) -> None:
    """Draw ticks, their texts, the line and the title of an axis at an edge, in pixels from the left or top."""
    options = axis.options
    if not is_visible(options):
        return
    base = float(drawing.font["size"])
    size, is_far = label_size(options, base), options.get("side") in ("right", "top")
    sign = 1 if is_far != axis.is_x else -1
    length = float(options.get("ticklen", 5)) if options.get("ticks") == "outside" else 0.0
    colour = (options.get("tickfont") or {}).get("color")
    if options.get("showline"):
        ends = (axis.start, axis.end)
        x1, x2, y1, y2 = (*ends, edge, edge) if axis.is_x else (edge, edge, *ends)
        line = paint("stroke", options.get("linecolor", "#444"))
        drawing.add("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke_width=options.get("linewidth", 1), **line)
    for place, text in axis.ticks():
        if length:
            stop = edge + sign * length
            x1, x2, y1, y2 = (place, place, edge, stop) if axis.is_x else (edge, stop, place, place)
            stroke = paint("stroke", options.get("tickcolor", "#444"))
            drawing.add("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke_width=1, **stroke)
        if options.get("showticklabels", True):
            _draw_label(drawing, axis, text, place, edge + sign * (length + 3), size, colour, sign)
    if title := title_text(options):
        _draw_title(drawing, axis, title, edge + sign * outer_size(axis, base), sign)


def _draw_label(
    drawing: Drawing, axis: Axis, text: str, place: float, edge: float, size: float, colour: str | None, sign: int
) -> None:
    angle = float(axis.options.get("tickangle") or 0)
    if not axis.is_x:
        drawing.text(text, edge, place, align="left" if sign > 0 else "right", size=size, colour=colour)
    elif angle:
        align = "right" if angle < 0 else "left"
        drawing.text(text, place, edge + 0.5 * size, align=align, size=size, colour=colour, angle=angle)
    else:
        lines = from_markup(text).count("\n") + 1
        drawing.text(text, place, edge + sign * LINE * size * lines / 2, align="center", size=size, colour=colour)


def _draw_title(drawing: Drawing, axis: Axis, title: str, edge: float, sign: int) -> None:
    size = _title_size(axis.options, float(drawing.font["size"]))
    given = axis.options["title"]
    colour = (given.get("font") or {}).get("color") if isinstance(given, Mapping) else None
    middle = (axis.start + axis.end) / 2
    inner = edge - sign * LINE * size / 2
    x, y, angle = (middle, inner, 0) if axis.is_x else (inner, middle, -90 if sign < 0 else 90)
    drawing.text(title, x, y, align="center", size=size, colour=colour, angle=angle)

"""The drawing area of a timeline figure: its scale, fonts and colours, and the traces so far.

Lanes are drawn in pixels from the top, on the axis ``y``; texts and signs beside the lanes on ``x2`` and ``y``, both in
pixels; signals on axes of their own. ``x`` is the time of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.template import BACKGROUNDS, FONT, GRID_COLOUR, TEXT_COLOURS, colours, template
from stepscope.app.figures.text import text_width, to_markup
from stepscope.app.formatting import format_clock
from stepscope.app.style.colours import Theme

SECONDS_PER_TICK: Final = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400)
_FONT_SIZES: Final = ((900, 12.0), (600, 11.0), (420, 10.2), (0, 9.6))
"""Font size in pixels from a width of the figure in pixels; 9.6 px are 7.2 pt."""


def font_size(width_px: float) -> float:
    """Return the font size in pixels of a figure."""
    return next(size for least, size in _FONT_SIZES if width_px >= least)


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A figure in the making. ``top`` moves down while lanes are added."""

    from_s: float
    to_s: float
    width_px: int
    theme: Theme
    top: float = 6.0
    traces: list[Any] = field(default_factory=list)
    axes: list[dict[str, Any]] = field(default_factory=list)
    """The y axes of the signals, each with ``top`` and ``height`` in pixels."""
    shapes: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    signs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Entries of the legend by their text, each with its ``color`` and a ``symbol`` of Plotly or a ``text``."""

    @property
    def size(self) -> float:
        """Font size in pixels."""
        return font_size(self.width_px)

    @property
    def colours(self) -> dict[str, str]:
        """The palette of the theme, and ``ink`` for texts."""
        return {**colours(self.theme), "ink": TEXT_COLOURS[self.theme]}

    @property
    def gutter_px(self) -> float:
        """Width of the labels beside the lanes."""
        return round(min(150.0, max(92.0, 0.2 * self.width_px)))

    @property
    def plot_px(self) -> float:
        """Width of the time axis."""
        half_label = text_width(format_clock(self.to_s), self.size) / 2
        return self.width_px - self.gutter_px - max(1.7 * self.size, half_label + 2)

    def seconds(self, pixels: float) -> float:
        """Return the time that a distance in pixels spans."""
        return pixels * (self.to_s - self.from_s) / self.plot_px

    def pixels(self, seconds: float) -> float:
        """Return the distance in pixels that a time spans."""
        return seconds * self.plot_px / (self.to_s - self.from_s)

    def tint(self, colour: str, share: float) -> str:
        """Return an opaque colour: a share of one of the palette over the background."""
        pairs = zip(_channels(self.colours[colour]), _channels(BACKGROUNDS[self.theme]), strict=True)
        return "#" + "".join(f"{round(share * front + (1 - share) * back):02x}" for front, back in pairs)

    def is_visible(self, time_s: float) -> bool:
        """Return whether a time is in the range, borders included."""
        return self.from_s <= time_s <= self.to_s

    def clip(self, start_s: float, end_s: float) -> tuple[float, float] | None:
        """Return the part of a span that is in the range; None if it is empty."""
        start, end = max(start_s, self.from_s), min(end_s, self.to_s)
        return (start, end) if start < end else None

    def add(self, trace: Any) -> None:
        """Add a trace; entries of Plotly's own legend are not used."""
        trace.showlegend = False
        self.traces.append(trace)

    def label(self, lines: Sequence[str], y: float, *, colour: str = "", x: float = 4.0, align: str = "right") -> None:
        """Write lines of plain text centred at a height, from ``x`` to the right, or to the left of it."""
        text = "<br>".join(map(to_markup, lines))
        self.labels.append({"text": text, "x": x, "y": y, "colour": colour or self.colours["ink"], "align": align})

    def add_axis(self, top: float, height: float, **options: Any) -> str:
        """Add the y axis of a signal; return its id in traces."""
        self.axes.append({"top": top, "height": height, **options})
        return f"y{len(self.axes) + 1}"

    def tick_times(self) -> list[float]:
        """Return the times of the ticks of the time axis."""
        span = self.to_s - self.from_s
        step = next((s for s in SECONDS_PER_TICK if span / s <= self.plot_px / 56), SECONDS_PER_TICK[-1])
        first = -int(-self.from_s // step)
        return [tick * step for tick in range(first, int((self.to_s + 1e-9) // step) + 1)]

    def finish(self, *, axis_y: float, title: str) -> go.Figure:
        """Return the figure; ``axis_y`` is the height of the time axis, ``title`` that of the document."""
        height, ticks = self.top, self.tick_times()
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1
        grid = [
            {"type": "line", "layer": "below", "xref": "x", "x0": tick, "x1": tick, "yref": "y", "y0": 2, "y1": axis_y}
            | {"line": {"color": GRID_COLOUR, "width": 1}}
            for tick in ticks
        ]
        domain = [self.gutter_px / self.width_px, (self.gutter_px + self.plot_px) / self.width_px]
        hidden = {"visible": False, "fixedrange": True, "automargin": False}
        layout: dict[str, Any] = {
            "template": template(self.theme),
            "width": self.width_px,
            "height": round(height),
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "font": {"family": FONT, "size": self.size, "color": self.colours["ink"]},
            "paper_bgcolor": BACKGROUNDS[self.theme],
            "showlegend": False,
            "barmode": "overlay",
            "meta": {"title": title},
            "shapes": grid + self.shapes,
            "xaxis": {"domain": domain, "range": [self.from_s, self.to_s], "automargin": False, "showgrid": False}
            | {"tickvals": ticks, "ticktext": [format_clock(tick, digits=int(step < 1)) for tick in ticks]}
            | {"anchor": "free", "position": 1 - axis_y / height, "zeroline": False, "tickangle": 0, "ticklen": 4},
            "xaxis2": {**hidden, "domain": [0, 1], "range": [0, self.width_px]},
            "yaxis": {**hidden, "domain": [0, 1], "range": [height, 0]},
        }
        for number, axis in enumerate(self.axes, start=2):
            top, span = axis["top"], axis["height"]
            layout[f"yaxis{number}"] = {
                "domain": [1 - (top + span) / height, 1 - top / height],
                **{"anchor": "x", "automargin": False, "zeroline": False, "fixedrange": True, "ticklen": 3},
                **{name: value for name, value in axis.items() if name not in ("top", "height")},
            }
        return go.Figure([*self.traces, *self._texts()], layout)

    def _texts(self) -> list[Any]:
        """Return the traces of the labels, one for each alignment."""
        return [
            go.Scatter(
                x=[label["x"] for label in chosen],
                y=[label["y"] for label in chosen],
                text=[label["text"] for label in chosen],
                textfont={"color": [label["colour"] for label in chosen], "size": self.size},
                **{"mode": "text", "textposition": f"middle {align}", "xaxis": "x2", "yaxis": "y"},
                **{"hoverinfo": "skip", "showlegend": False, "cliponaxis": False},
            )
            for align in ("right", "left")
            if (chosen := [label for label in self.labels if label["align"] == align])
        ]


def _channels(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of ``#1c6fab``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)

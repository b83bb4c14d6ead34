"""Parts that all charts share: template, title and note, the styles of both decisions, and empty charts."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import plotly
import plotly.graph_objects as go

from stepscope.app.figures.text import clean_text, to_markup
from stepscope.app.style.colours import COLOURS, Theme
from stepscope.engine.decisions.signals import Decision
from stepscope.engine.io.files import show_turns

FONT: Final = "Source Sans Pro, ui-sans-serif, system-ui, sans-serif"
TEXT_COLOURS: Final = {"light": "#27272a", "dark": "#f4f4f5"}
BACKGROUNDS: Final = {"light": "#ffffff", "dark": "#18181b"}
"""Backgrounds of the page, and of figures in files."""
PLOTLY_PATH: Final = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
"""plotly.js in plotly's wheel, about 5 MB."""
GRID_COLOUR: Final = "rgba(125, 132, 142, 0.25)"


def colours(theme: Theme) -> dict[str, str]:
    """Return the palette of a theme: CSS colours by name, such as ``speak`` and ``missed``."""
    return {name: getattr(colour, theme) for name, colour in COLOURS.items()}


def template(theme: Theme) -> go.layout.Template:
    """Return the template of a theme. Backgrounds are transparent, so that a figure fits any page."""
    axis = {
        "gridcolor": GRID_COLOUR,
        "linecolor": GRID_COLOUR,
        "zerolinecolor": GRID_COLOUR,
        "ticks": "outside",
        "tickcolor": GRID_COLOUR,
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": 12}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 12, "color": TEXT_COLOURS[theme]},
            "title": {"font": {"size": 14}, "x": 0, "xref": "paper", "xanchor": "left"},
            "paper_bgcolor": "rgba(0, 0, 0, 0)",
            "plot_bgcolor": "rgba(0, 0, 0, 0)",
            "colorway": list(dict.fromkeys(colours(theme).values())),
            "xaxis": axis,
            "yaxis": axis,
            "hovermode": "closest",
            "hoverlabel": {"align": "left", "font": {"family": FONT}},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 1, "xanchor": "right"},
            "margin": {"l": 48, "r": 14, "t": 44, "b": 40},
        },
        data={"scatter": [{"cliponaxis": False}], "bar": [{"cliponaxis": False, "textposition": "none"}]},
    )


def draw_themes(draw: Callable[[Theme], go.Figure]) -> dict[str, Any]:
    """Return a figure as Plotly JSON for each theme, by the theme's name."""
    return {theme: draw(theme).to_plotly_json() for theme in get_args(Theme)}


HEIGHT_PX: Final = 340
SMALL_PX: Final = 11
"""Size of notes, ticks and legends, the smallest text of a chart."""
MAX_NAME_CHARS: Final = 60
_MANY_DECADES: Final = 4
"""Powers of 10 on a logarithmic axis beyond which it has ticks at these alone."""


class Style(NamedTuple):
    """How the decisions of one signal are drawn; the colour is never the only difference."""

    colour: str
    dash: str
    symbol: str
    pattern: str = ""


HEADS: Final[Mapping[Decision, Style]] = {
    "speak": Style("speak", "solid", "circle"),
    "update": Style("update", "dash", "square", "/"),
}


def plain(text: str) -> str:
    """Return an untrusted text as Plotly shows it: markup has no effect, and a long text is cut."""
    line = show_turns(clean_text(text))
    return to_markup(line if len(line) <= MAX_NAME_CHARS else f"{line[: MAX_NAME_CHARS - 1]}…")


def make_chart(
    traces: Sequence[Any],
    theme: Theme,
    *,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    note: str = "",
    summary: str = "",
    title_text: str = "",
    **layout: Any,
) -> go.Figure:
    """Return a chart in the style of all charts.

    The texts of points are shown under the mouse. ``note`` is a short line below the title, and ``summary`` the main
    numbers in words, for readers who do not see the chart. ``Chart.draw`` adds the title of a chart without one.
    """
    small = {"font": {"size": SMALL_PX}}
    figure = go.Figure(
        data=list(traces),
        layout={
            "template": template(theme),
            "height": HEIGHT_PX,
            "title": {
                "text": title_text,
                "subtitle": {"text": note, **small},
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "pad": {"t": 8},
            },
            "xaxis": {"tickfont": {"size": SMALL_PX}, **x},
            "yaxis": {"tickfont": {"size": SMALL_PX}, **y},
            "legend": {"yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left", **small},
            "margin": {"l": 52, "r": 16, "t": 62, "b": 84},
            "meta": {"summary": summary},
            "modebar": {
                "bgcolor": "rgba(0, 0, 0, 0)",
                "color": colours(theme)["reference"],
                "activecolor": colours(theme)["speak"],
            },
            **layout,
        },
    )
    for trace in figure.data:  # copies: the caller's traces stay as they are
        if trace.text is not None and not (trace.hovertemplate or trace.hoverinfo):
            trace.hovertemplate = "%{text}<extra></extra>"
    return figure


def add_basis(figure: go.Figure, basis: str) -> go.Figure:
    """Add the line of ``describe_scoring``. The page shows it below the chart; a file shows it below the note."""
    return figure.update_layout(meta={**(figure.layout.meta or {}), "basis": clean_text(basis)})


def make_empty_chart(theme: Theme, reason: str) -> go.Figure:
    """Return a chart without data, with the reason in its middle."""
    hidden = {"visible": False, "range": [0, 1]}
    text = {"text": reason, "x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper", "showarrow": False}
    return make_chart([], theme, x=hidden, y=hidden, summary=reason, annotations=[text])


def log_axis(values: Iterable[float]) -> dict[str, Any]:
    """Return a logarithmic axis of positive values, with ticks at 1, 2 and 5 times the powers of 10, or those alone.

    Plotly itself writes the ticks 10, 20, 50 and 100 as "10, 2, 5, 100".
    """
    known = [value for value in values if 0 < value < math.inf]
    first, last = (math.floor(math.log10(end(known, default=1.0))) for end in (min, max))
    factors = (1, 2, 5) if last - first < _MANY_DECADES else (1,)
    ticks = [float(f"{factor}e{power}") for power in range(first, last + 2) for factor in factors]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,.12g}" for tick in ticks]}


def diagonal(theme: Theme) -> go.Scatter:
    """Return a thin dotted line from (0, 0) to (1, 1), to compare with."""
    line = {"color": colours(theme)["reference"], "dash": "dot", "width": 1}
    return go.Scatter(x=[0, 1], y=[0, 1], mode="lines", line=line, hoverinfo="skip", showlegend=False)


def bar_marker(theme: Theme, colour: str, pattern: str = "") -> dict[str, Any]:
    """Return the fill of bars: a colour of the palette, with a pattern of Plotly if it must differ from other bars."""
    drawn = {"shape": pattern, "fillmode": "overlay", "fgcolor": outline(theme)["color"], "size": 6, "solidity": 0.25}
    return {"color": colours(theme)[colour], **({"pattern": drawn} if pattern else {})}


def outline(theme: Theme) -> dict[str, Any]:
    """Return the outline of a marker, which separates it from the curve under it."""
    return {"color": BACKGROUNDS[theme], "width": 1.5}


def unit_axis(title: str) -> dict[str, Any]:
    """Return an axis from 0 to 1."""
    return {"title": {"text": title}, "range": [0, 1.02], "dtick": 0.2, "tickformat": ".1f", "zeroline": False}

"""Layout that all figures share, for the light and the dark theme."""

from collections.abc import Callable
from typing import Any, Final, get_args

import plotly.graph_objects as go

from stepscope.app.style.colours import COLOURS, Theme

FONT: Final = "Source Sans Pro, ui-sans-serif, system-ui, sans-serif"
TEXT_COLOURS: Final = {"light": "#27272a", "dark": "#f4f4f5"}
BACKGROUNDS: Final = {"light": "#ffffff", "dark": "#18181b"}
"""Backgrounds of the page, and of figures in files."""
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
        }
    )


def draw_themes(draw: Callable[[Theme], go.Figure]) -> dict[str, Any]:
    """Return a figure as Plotly JSON for each theme, by the theme's name."""
    return {theme: draw(theme).to_plotly_json() for theme in get_args(Theme)}

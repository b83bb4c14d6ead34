"""A chart as a Gradio component: one ``gr.HTML``, in which Plotly draws a figure in the page's theme.

The value is a JSON string with the figure for both themes. ``gr.Plot`` has no clicks, and loads a Plotly of its own.
"""

from collections.abc import Callable
from typing import Any

import gradio as gr
import plotly.graph_objects as go

from stepscope.app.figures.template import draw_themes
from stepscope.app.style.colours import Theme
from stepscope.app.web.component import MODULES
from stepscope.app.web.plotly_script import PLOTLY_URL
from stepscope.engine.io.files import to_json


def make_chart(elem_id: str, *, hint: str = "") -> Any:
    """Return an empty chart, whose values are those of ``pack_chart``.

    ``hint`` states the effect of a click on a point, if there is one. The event ``pick`` then has the ``customdata`` of
    the point as ``point``.
    """
    return gr.HTML(
        value="",
        html_template='<div class="ss-chart"></div>',
        js_on_load=MODULES.make_script(
            "charts/chart.js", events=["pick"], settings={"plotly_url": PLOTLY_URL, "hint": hint}
        ),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["pickable"] if hint else [],
        padding=False,
        min_width=300,
    )


def pack_chart(draw: Callable[[Theme], go.Figure], *, revision: str) -> str:
    """Return a figure for both themes as JSON. The zoom of the chart lasts as long as ``revision`` is the same."""
    return to_json({**draw_themes(draw), "revision": revision})

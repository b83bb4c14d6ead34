"""The heat map of a threshold sweep. The ``customdata`` of a point is its speak and its update threshold."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import SMALL_PX, colours, make_chart, outline, plain
from stepscope.app.figures.charts.sweep_curves import (
    SweepData,
    axis_value,
    describe_best,
    describe_point,
    list_marks,
    rates,
    threshold_title,
)
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.eval.metrics.definitions import compute_loss, find_metric
from stepscope.eval.sweeps.best_point import BestPoint, find_best

_SCALES: Final = {"light": ("#edf2f6", "#1c6fab"), "dark": ("#2a333b", "#58aeea")}
"""Colours of the worst and the best score."""


def heat_map(data: SweepData, metric: str, theme: Theme) -> go.Figure:
    """Return one score over the grid; a stronger colour is better. Raises ``ValueError`` as ``find_best``.

    Of a grid with one axis, return the chart ``rates`` in its place.
    """
    best, scores = find_best(data.scores, metric, present=data.present), data.scores
    if len(scores.grid.titles) == 1:
        return rates(data, best, theme)
    rows = scores.as_matrix(metric)
    exact = {place: point[metric] for place, point in data.exact_points.items() if metric in point}
    traces = [
        go.Heatmap(
            x=[axis_value(scores.grid, "speak", speak) for speak in scores.grid.speak],
            y=scores.grid.update,
            z=[[_shade(metric, value) for value in row] for row in rows],
            text=[
                [
                    describe_point(best, speak, update, value)
                    for speak, value in zip(scores.grid.speak, row, strict=True)
                ]
                for update, row in zip(scores.grid.update, rows, strict=True)
            ],
            customdata=[[[speak, update] for speak in scores.grid.speak] for update in scores.grid.update],
            name=find_metric(metric).label,
            coloraxis="coloraxis",
            xgap=2,
            ygap=2,
        ),
        _exact_marks(best, exact, theme),
        *(
            _mark(best, theme, [place], name, symbol="x" if name == "this run" else "star", colour=colour)
            for name, place, colour in list_marks(data, best)
        ),
    ]
    kind = "Exact" if scores.is_exact else "Preview; squares: exact points" if exact else "Preview"
    undefined = sum(math.isnan(value) for row in rows for value in row)
    left_out = f". Empty: {undefined} undefined" if undefined else ""
    return make_chart(
        traces,
        theme,
        x={"title": {"text": threshold_title(scores.grid, "speak")}, "zeroline": False, "showgrid": False},
        y={"title": {"text": threshold_title(scores.grid, "update")}, "zeroline": False, "showgrid": False},
        coloraxis=_color_axis(metric, theme),
        title_text=find_metric(metric).label + scores.grid.of_rule,
        note=f"{kind}{left_out}",
        summary=f"{kind}{left_out}. Best: {describe_best(best)}. {_describe_worst(rows, metric)}",
    )


def _shade(metric: str, value: float) -> float | None:
    """Return the number that colours a score: the score, or its distance from the best one; None if undefined."""
    if math.isnan(value):
        return None
    return compute_loss(metric, value) if _is_near(metric) else value


def _is_near(metric: str) -> bool:
    return find_metric(metric).better.startswith("near")


def _color_axis(metric: str, theme: Theme) -> dict[str, Any]:
    found = find_metric(metric)
    worst, best = _SCALES[theme]
    return {
        "colorscale": [[0, worst], [1, best]],
        "reversescale": found.better != "higher",
        "colorbar": {
            "title": {"text": f"Distance from {found.better[-1]}" if _is_near(metric) else "", "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
            "tickfont": {"size": SMALL_PX},
        },
    }


def _exact_marks(best: BestPoint, points: Mapping[tuple[float, float], float], theme: Theme) -> go.Scatter:
    """Return squares with the exact scores, in the colours of the heat map."""
    values = list(points.values())
    marks = _mark(best, theme, list(points), "exact", symbol="square", colour="reference", values=values)
    shades = [_shade(best.metric, value) for value in values]
    line = {"color": colours(theme)["reference"], "width": 1.5}
    return marks.update(marker={"color": shades, "coloraxis": "coloraxis", "size": 10, "line": line})


def _mark(
    best: BestPoint,
    theme: Theme,
    places: Sequence[tuple[float, float]],
    name: str,
    *,
    symbol: str,
    colour: str,
    values: Sequence[float] = (),
) -> go.Scatter:
    """Return marks at pairs of thresholds, which can be clicked as the cells can."""
    texts = [
        f"{name}: {describe_point(best, *place, values[number]) if values else plain(best.grid.describe(*place))}"
        for number, place in enumerate(places)
    ]
    return go.Scatter(
        x=[axis_value(best.grid, "speak", speak) for speak, _ in places],
        y=[update for _, update in places],
        customdata=[list(place) for place in places],
        text=texts,
        name=name,
        mode="markers",
        marker={"symbol": symbol, "size": 14, "color": colours(theme)[colour], "line": outline(theme)},
        showlegend=bool(places),
    )


def _describe_worst(rows: Sequence[Sequence[float]], metric: str) -> str:
    values = np.array(rows, float)
    worst = float(values.flat[np.nanargmax(compute_loss(metric, values))])
    return f"Worst: {format_score(worst, is_count=find_metric(metric).is_count)}"

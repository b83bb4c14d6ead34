"""Charts of a training folder: the losses of its steps, and the scores of its validations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import (
    colours,
    log_axis,
    make_chart,
    make_empty_chart,
    outline,
    plain,
    unit_axis,
)
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.training.results import SHOWN_SCORES, TrainingResults

_LOSSES: Final = {
    "text": ("texts", "reference", "dot"),
    "speak": ("decision to speak", "speak", "solid"),
    "update": ("decision to update", "update", "dash"),
}
"""Name, colour and dash of each loss."""
_SCORE_STYLES: Final = (
    *(("speak", "solid", "circle"), ("speak", "dot", "circle-open"), ("update", "dash", "square")),
    *(("update", "dot", "square-open"), ("matched", "dashdot", "diamond"), ("redundant", "longdash", "x")),
)
"""Colour, dash and symbol of each of ``SHOWN_SCORES``."""


def losses(results: TrainingResults, theme: Theme) -> go.Figure:
    """Return the three losses over the steps, on a logarithmic axis."""
    traces, parts = list[Any](), list[str]()
    for key, (name, colour, dash) in _LOSSES.items():
        points = [(step, value) for step, value in _points(results.losses, key) if value > 0]  # of a logarithm
        if points:
            parts.append(f"{name} {points[0][1]:.3g} to {points[-1][1]:.3g}")
        traces.append(
            go.Scatter(
                x=[step for step, _ in points],
                y=[value for _, value in points],
                name=name,
                mode="lines" if len(points) > 1 else "markers",
                line={"color": colours(theme)[colour], "dash": dash, "width": 2},
                hovertemplate=f"{name}: %{{y:.3g}}, step %{{x}}<extra></extra>",
            )
        )
    if not parts:
        return make_empty_chart(theme, "No steps yet.")
    return make_chart(
        traces,
        theme,
        x=_step_axis(results),
        y={"title": {"text": "Loss (nats)"}, **log_axis(value for trace in traces for value in trace.y)},
        note="Means over the steps since the point before",
        summary=", ".join(parts),
    )


def validation(results: TrainingResults, theme: Theme) -> go.Figure:
    """Return the validation score and its parts over the steps, and the best step."""
    rows = results.validations
    known = _points(rows, "score")
    if not known:
        return make_empty_chart(theme, "No validation yet.")
    traces: list[Any] = [
        _score_line(_points(rows, name), find_metric(name).label, theme, *style)
        for name, style in zip(SHOWN_SCORES, _SCORE_STYLES, strict=True)
        if _points(rows, name)
    ]
    traces.append(_score_line(known, "validation score", theme, "reference", "solid", "circle").update(line_width=4))
    best = results.progress.best_step if results.progress else None
    marked = [point for point in known if point[0] == best]
    traces.append(_mark_best(marked, theme))
    start = f"; before training {format_score(known[0][1])}" if known[0][0] == 0 else ""
    note = f"Best: step {best}, {format_score(marked[0][1])}{start}" if marked else "No checkpoint yet"
    return make_chart(
        traces,
        theme,
        x=_step_axis(results),
        y=unit_axis("Score"),
        note=note,
        summary=f"{note}. At the start {format_score(known[0][1])}, at step {known[-1][0]:.0f} "
        f"{format_score(known[-1][1])}",
    )


def _score_line(
    points: Sequence[tuple[float, float]], name: str, theme: Theme, colour: str, dash: str, symbol: str
) -> go.Scatter:
    return go.Scatter(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        name=plain(name),
        mode="lines+markers",
        line={"color": colours(theme)[colour], "dash": dash, "width": 2},
        marker={"symbol": symbol, "size": 8},
        hovertemplate=f"{plain(name)}: %{{y:.3f}}, step %{{x}}<extra></extra>",
    )


def _mark_best(points: Sequence[tuple[float, float]], theme: Theme) -> go.Scatter:
    return go.Scatter(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        name="best",
        mode="markers",
        marker={"symbol": "star", "size": 14, "color": colours(theme)["update"], "line": outline(theme)},
        hovertemplate="best: %{y:.3f}, step %{x}<extra></extra>",
        showlegend=bool(points),
    )


def _points(rows: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """Return step and value of each row that has the value."""
    pairs = ((row["step"], row.get(name, math.nan)) for row in rows)
    return [(step, value) for step, value in pairs if math.isfinite(value)]


def _step_axis(results: TrainingResults) -> dict[str, Any]:
    last = results.progress.num_steps if results.progress else None
    return {"title": {"text": "Step"}, "range": [0, last or 1], "zeroline": False}

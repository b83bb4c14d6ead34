"""The chart of single steps: scores of the commonest classes of steps, and of steps with a cause of difficulty."""

import math
from collections.abc import Mapping
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import bar_marker, make_chart, make_empty_chart, plain
from stepscope.app.style.colours import Theme
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.table_files import Results

MAX_CLASSES: Final = 8
"""Classes that are drawn; ``steps.csv`` has all."""
_SCORES: Final = {"completion_f1": ("matched", ""), "start_recall_2s": ("update", "/")}
"""Colour and pattern by score."""


def classes(results: Results, theme: Theme) -> go.Figure:
    """Return completion F1 and start recall by class of steps (the same name) and by cause, the commonest first."""
    rows = sorted(results.charts.get("classes", []), key=lambda row: -row["num_steps"])
    of_class = [row for row in rows if row["level"] == "class"]
    shown = of_class[:MAX_CLASSES] + [row for row in rows if row["level"] == "cause"]
    if not shown:
        return make_empty_chart(theme, "No data: the run has no steps, or is not scored yet.")
    names = [_name_row(row) for row in shown]
    traces = list[Any]()
    for score, (colour, pattern) in _SCORES.items():
        known = [(name, row[score]) for name, row in zip(names, shown, strict=True) if not math.isnan(row[score])]
        traces.append(
            go.Bar(
                x=[value for _, value in known],
                y=[name for name, _ in known],
                name=find_metric(score).label,
                orientation="h",
                hovertemplate="%{y}: %{x:.2f}<extra></extra>",
                marker=bar_marker(theme, colour, pattern),
            )
        )
    note = f"The {min(MAX_CLASSES, len(of_class))} commonest of {len(of_class)} classes, then causes; with their steps"
    parts = [f"{name}: {row['completion_f1']:.2f}" for name, row in zip(names, shown, strict=True)]
    return make_chart(
        traces,
        theme,
        x={"range": [0, 1]},
        y={"autorange": "reversed", "categoryorder": "array", "categoryarray": names},
        margin={"l": 52, "r": 16, "t": 62, "b": 64},
        note=note,
        summary=f"{note}. Completion F1: " + ", ".join(parts),
    )


def _name_row(row: Mapping[str, Any]) -> str:
    name = plain(str(row["name"]))
    return f"{'cause: ' if row['level'] == 'cause' else ''}{name}, {row['num_steps']:.0f}"

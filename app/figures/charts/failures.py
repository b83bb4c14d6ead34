"""Charts of errors: failures by kind, and step states that differ from the reference."""

import math
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import bar_marker, make_chart, make_empty_chart
from stepscope.app.formatting import STATE_DIFFERENCES
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.table_files import Results

_DIFFERENCE_STYLES: Final = {"behind": ("missed", ""), "ahead": ("redundant", "/")}
"""Colour and pattern by the difference of a state."""


def failures(results: Results, theme: Theme) -> go.Figure:
    """Return the number of failures of each kind. The ``customdata`` of a bar is its kind."""
    numbers: dict[str, int] = results.charts.get("failures", {})
    if not numbers:
        return make_empty_chart(theme, "No data: the run is not scored yet.")
    total = sum(numbers.values())
    return make_chart(
        [
            go.Bar(
                x=list(numbers.values()),
                y=list(numbers),
                orientation="h",
                customdata=list(numbers),
                text=[f"{number:,}" for number in numbers.values()],
                textposition="outside",
                marker=bar_marker(theme, "missed"),
                hovertemplate="%{y}: %{text}<extra></extra>",
                showlegend=False,
            )
        ],
        theme,
        x={"title": {"text": "Failures"}, "rangemode": "tozero"},
        y={"autorange": "reversed"},
        margin={"l": 52, "r": 36, "t": 62, "b": 48},
        note=f"{total:,} in all",
        summary=", ".join(f"{kind} {number}" for kind, number in numbers.items()),
    )


def states(results: Results, theme: Theme) -> go.Figure:
    """Return the share of frames in which each step is behind or ahead of the reference."""
    steps = results.charts.get("states", [])
    names = [f"step {number}" for number in range(1, len(steps) + 1)]
    traces, parts = list[Any](), list[str]()
    for difference, (colour, pattern) in _DIFFERENCE_STYLES.items():
        shares = [step[difference] for step in steps]
        known = [(name, share) for name, share in zip(names, shares, strict=True) if not math.isnan(share)]
        parts += [f"{name} {difference} {share:.1%}" for name, share in known]
        traces.append(
            go.Bar(
                x=[name for name, _ in known],
                y=[share for _, share in known],
                name=STATE_DIFFERENCES[difference],
                text=[f"{name}: {share:.1%} of the frames {STATE_DIFFERENCES[difference]}" for name, share in known],
                marker=bar_marker(theme, colour, pattern),
            )
        )
    if not parts:
        return make_empty_chart(theme, "No data: this run has no step states.")
    return make_chart(
        traces,
        theme,
        x={"title": {"text": "Step of the task"}},
        y={"title": {"text": "Share of frames"}, "tickformat": "~%", "rangemode": "tozero"},
        note="Frames in which the state differs from the reference",
        summary=", ".join(parts),
    )

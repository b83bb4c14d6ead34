"""A score of the runs of a folder over time."""

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import make_chart, make_empty_chart, outline, plain
from stepscope.app.figures.charts.videos import score_axis
from stepscope.app.figures.template import colours
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.reports.run_list import ListedRun

_STYLES: Final = (
    *(("speak", "circle"), ("update", "square"), ("latency", "diamond"), ("user", "triangle-up")),
    *(("missed", "x"), ("redundant", "star"), ("reference", "hexagon")),
)
"""Colour and symbol of each group, in the order of their first run; an eighth group repeats the first."""
_NO_GROUP: Final = "no group"


def draw_history(runs: Sequence[ListedRun], metric: str, theme: Theme) -> go.Figure:
    """Return a score of runs by their dates, coloured by group, with 95 % intervals.

    The ``customdata`` of a point is the name of its run.
    """
    found = find_metric(metric)
    known = sorted((run for run in runs if metric in run.scores), key=lambda run: run.date)
    if not known:
        return make_empty_chart(theme, "No data: no listed run has this score.")
    groups = dict.fromkeys(run.notes.group for run in known)
    traces = list[Any]()
    for number, group in enumerate(groups):
        colour, symbol = _STYLES[number % len(_STYLES)]
        members = [run for run in known if run.notes.group == group]
        values = [run.scores[metric] for run in members]
        bounds = [run.intervals.get(metric, (value, value)) for run, value in zip(members, values, strict=True)]
        traces.append(
            go.Scatter(
                x=[run.date.isoformat() for run in members],
                y=values,
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [max(high - value, 0) for (_, high), value in zip(bounds, values, strict=True)],
                    "arrayminus": [max(value - low, 0) for (low, _), value in zip(bounds, values, strict=True)],
                    "thickness": 1,
                    "width": 3,
                },
                customdata=[run.name for run in members],
                text=[f"{plain(run.name)}<br>{run.date:%Y-%m-%d %H:%M} UTC" for run in members],
                name=plain(group or _NO_GROUP),
                mode="markers",
                marker={"color": colours(theme)[colour], "symbol": symbol, "size": 10, "line": outline(theme)},
                hovertemplate=f"%{{text}}<br>{found.label} %{{y:.3f}}<extra></extra>",
                cliponaxis=False,
                showlegend=len(groups) > 1,
            )
        )
    first, last = (format_score(run.scores[metric], is_count=found.is_count) for run in (known[0], known[-1]))
    return make_chart(
        traces,
        theme,
        x={"title": {"text": "Date"}, "type": "date"},
        y=score_axis(found),
        title_text=f"{found.label} over time",
        note="95 % intervals; runs of other splits or text encoders are not comparable",
        summary=f"{format_count(len(known), 'run')}; the first {first}, the last {last}",
    )

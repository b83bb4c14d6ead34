"""Charts with a point for each video, of one run or two, and with a point for each run."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import colours, make_chart, make_empty_chart, outline, plain
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import METRICS, Metric, find_metric, has_direction
from stepscope.eval.reports.run_list import ListedRun
from stepscope.eval.reports.table_files import Results

SCATTER_SCORES: Final = ("F1", "dst_f1")
"""Default scores of the axes: whether the right messages come, and whether the state is tracked."""
VIDEO_SCORES: Final = tuple(metric.name for metric in METRICS if metric.scope != "split" and not metric.is_detail)
"""Scores that a video can have."""
_NOT_COMPARED: Final = ("Bleu", "CIDEr", "METEOR", "live_")
"""Prefixes of scores without a value per video: text scores of the corpus, and scores that outputs do not have."""
COMPARED_SCORES: Final = tuple(
    metric.name
    for metric in METRICS
    if metric.scope != "split" and has_direction(metric.name) and not metric.name.startswith(_NOT_COMPARED)
)
"""Scores by which the videos of two runs can be compared."""

_RUN_STYLES: Final = (("A", "user", "circle"), ("B", "update", "diamond"))
"""Letter, colour and symbol of both runs of a comparison."""


def scatter(results: Results, theme: Theme, *, x: str = SCATTER_SCORES[0], y: str = SCATTER_SCORES[1]) -> go.Figure:
    """Return the videos by two scores of ``VIDEO_SCORES``. The ``customdata`` of a point is the id of its video."""
    across, up = find_metric(x), find_metric(y)
    points = [(str(row["video_id"]), float(row.get(x, math.nan)), float(row.get(y, math.nan))) for row in results.rows]
    known = [point for point in points if math.isfinite(point[1]) and math.isfinite(point[2])]
    if not known:
        return make_empty_chart(theme, "No data: no video has both scores.")
    names, xs, ys = zip(*known, strict=True)
    note = f"{format_count(len(known), 'video')}{describe_left_out(len(points) - len(known))}"
    return make_chart(
        [
            go.Scatter(
                x=xs,
                y=ys,
                customdata=names,
                text=[
                    f"{plain(name)}<br>{across.label} {_format(across, a)}<br>{up.label} {_format(up, b)}"
                    for name, a, b in known
                ],
                mode="markers",
                marker={"color": colours(theme)["speak"], "size": 10, "opacity": 0.75, "line": outline(theme)},
                showlegend=False,
            )
        ],
        theme,
        x=score_axis(across),
        y=score_axis(up),
        margin={"l": 52, "r": 16, "t": 62, "b": 48},
        note=note,
        summary=f"{_describe(across, xs)}; {_describe(up, ys)}. {note}",
    )


def score_axis(metric: Metric) -> dict[str, Any]:
    """Return the axis of a score."""
    axis = {"title": {"text": metric.label}, "zeroline": False}
    return {**axis, "range": [-0.03, 1.04], "dtick": 0.2} if metric.range == "0 to 1" else axis


def describe_left_out(number: int) -> str:
    """Return a note on the videos in which a score is undefined; empty if there are none."""
    return f". Left out: {number} with undefined scores" if number else ""


def _format(metric: Metric, value: float) -> str:
    return format_score(value, is_count=metric.is_count)


def _describe(metric: Metric, values: Sequence[float]) -> str:
    middle = _format(metric, statistics.median(values))
    return f"{metric.label} from {_format(metric, min(values))} to {_format(metric, max(values))}, median {middle}"


def score_distributions(
    scores: Sequence[tuple[str, float, float]], metric: str, theme: Theme, *, names: tuple[str, str]
) -> go.Figure:
    """Return one score of each video in the runs A and B: a box for each run, and a line for each video.

    ``scores`` are the id of each video with its score in A and in B, nan if undefined.
    """
    known = [one for one in scores if math.isfinite(one[1]) and math.isfinite(one[2])]
    if not known:
        return make_empty_chart(theme, "No data: no video has this score in both runs.")
    found, left_out = find_metric(metric), describe_left_out(len(scores) - len(known))
    ids, *values = zip(*known, strict=True)
    texts = [f"{plain(name)}<br>A {_format(found, a)}, B {_format(found, b)}" for name, a, b in known]
    lines = {"x": [0, 1, None] * len(known), "y": [part for _, a, b in known for part in (a, b, None)]}
    line = {"color": colours(theme)["reference"], "width": 1}
    traces = [go.Scatter(**lines, mode="lines", line=line, opacity=0.5, hoverinfo="skip", showlegend=False)]
    for at, (letter, colour, symbol) in enumerate(_RUN_STYLES):
        drawn = {"color": colours(theme)[colour], "symbol": symbol, "size": 10, "line": outline(theme)}
        box = {"line": {"color": drawn["color"], "width": 2}, "fillcolor": "rgba(0, 0, 0, 0)", "boxpoints": False}
        side = -0.25 if at == 0 else 1.25
        traces += [
            go.Box(
                x=[side] * len(known),
                y=values[at],
                name=f"box of {letter}",
                width=0.3,
                **box,
                hoverinfo="y",
                showlegend=False,
            ),
            go.Scatter(
                x=[at] * len(known),
                y=values[at],
                customdata=ids,
                text=texts,
                name=f"{letter}: {plain(names[at])}",
                mode="markers",
                marker=drawn,
            ),
        ]
    return make_chart(
        traces,
        theme,
        x={"tickvals": [0, 1], "ticktext": ["A", "B"], "range": [-0.6, 1.6], "zeroline": False, "showgrid": False},
        y=score_axis(found),
        title_text=f"{found.label} of each video",
        note=f"Each line is a video{left_out}",
        summary=f"{format_count(len(known), 'video')}; A: {_describe(found, values[0])}; "
        f"B: {_describe(found, values[1])}{left_out}",
    )


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

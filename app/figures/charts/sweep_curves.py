"""Curves of a threshold sweep: one score, or the rates of one decision, over a threshold.

The ``customdata`` of a point is its speak and its update threshold, None for one that is not swept.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import HEADS, Style, colours, make_chart, outline, plain, unit_axis
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.engine.config import format_threshold
from stepscope.engine.decisions.policies import convert_theta
from stepscope.engine.decisions.signals import Decision
from stepscope.eval.metrics.decisions import PREFIXES
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.sweeps.best_point import BestPoint, PresentPoint, find_best
from stepscope.eval.sweeps.grid import GRID_SIZES, Grid, GridScores
from stepscope.eval.sweeps.preview import Traces, make_choice_grid, preview, preview_present

_RATES: Final = {
    "f1": Style("speak", "solid", "circle"),
    "precision": Style("update", "dash", "square"),
    "recall": Style("latency", "dot", "diamond"),
}
"""Styles of the rates of events."""
Points = Sequence[tuple[tuple[float, float], float]]
"""Pairs of thresholds, each with its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepData:
    """The points of a sweep, and the points to mark."""

    scores: GridScores
    """The points of the grid, exact or as a preview."""
    exact_points: Mapping[tuple[float, float], Mapping[str, float]] = field(default_factory=dict)
    """Scores of the points of all grids that were run, by speak and update threshold; marked on a preview."""
    present: PresentPoint | None = None
    """The thresholds of the run; None if one that is swept is unknown."""


def preview_choice(traces: Traces, names: Sequence[str], *, size: int = GRID_SIZES[1]) -> SweepData:
    """Return the preview of the signals of these names, by default the first ones, with the thresholds of the run.

    Raises ``ValueError`` as ``Traces.choose`` and ``preview``.
    """
    choice = traces.choose(names)
    return SweepData(
        scores=preview(traces, make_choice_grid(choice, lambda signal: signal.make_axis(size))),
        present=preview_present(traces, choice),
    )


def curves(data: SweepData, metric: str, theme: Theme) -> go.Figure:
    """Return one score along each axis through the best point. Raises ``ValueError`` as ``find_best``."""
    best, scores = find_best(data.scores, metric, present=data.present), data.scores
    label = find_metric(metric).label + scores.grid.of_rule
    titles: Iterable[Decision] = ("speak",) if scores.grid.has_theta else scores.grid.titles
    traces = [
        _curve(
            best,
            list(_along(scores, best, decides)),
            metric,
            decides,
            theme,
            name=_name_curve(best, decides),
            style=HEADS[decides],
        )
        for decides in titles
    ]
    return make_chart(
        traces,
        theme,
        x=_threshold_axis(scores.grid),
        y={"title": {"text": label}, "zeroline": False},
        title_text="Through the best point",
        note="Exact" if scores.is_exact else "Preview",
        summary=f"{label} over one threshold through {describe_best(best)}",
    )


def list_marks(data: SweepData, best: BestPoint) -> list[tuple[str, tuple[float, float], str]]:
    """Return name, thresholds and colour of the best point and of the run, which is one mark if it is the best."""
    if best.is_present:
        return [("best, this run", best.thresholds, "update")]
    own = [("this run", data.present.thresholds, "missed")] if data.present is not None else []
    return [("best", best.thresholds, "update"), *own]


def rates(data: SweepData, best: BestPoint, theme: Theme) -> go.Figure:
    """Return precision, recall and F1 of the events within 1 s, over the only threshold that is swept."""
    scores = data.scores
    (decides,) = scores.grid.titles
    traces = []
    for rate, style in _RATES.items():
        metric = f"{PREFIXES[decides]}event_{rate}_1s"
        points = [(pair, point[metric]) for pair, point in zip(scores.grid.pairs(), scores.points, strict=True)]
        traces.append(
            _curve(
                best, points, metric, decides, theme, name=find_metric(metric).label + scores.grid.of_rule, style=style
            )
        )
    marks = list_marks(data, best)
    kind = "Exact" if scores.is_exact else "Preview"
    return make_chart(
        [
            *traces,
            *(
                _mark(name, axis_value(scores.grid, decides, place[decides == "update"]), colour, theme)
                for name, place, colour in marks
            ),
        ],
        theme,
        x=_threshold_axis(scores.grid),
        y=unit_axis("Share"),
        title_text=f"Decisions by {plain(scores.grid.titles[decides])}",
        note=f"{kind}. Vertical lines: {' and '.join(name for name, _, _ in marks)}",
        summary=f"{kind}. Best: {describe_best(best)}",
    )


def _curve(
    best: BestPoint, points: Points, metric: str, decides: Decision, theme: Theme, *, name: str, style: Style
) -> go.Scatter:
    """Return a score over the threshold of a decision, without its undefined points."""
    known = [(pair, value) for pair, value in points if not math.isnan(value)]
    return go.Scatter(
        x=[_place(best.grid, decides, pair) for pair, _ in known],
        y=[value for _, value in known],
        customdata=[[None if math.isnan(value) else value for value in pair] for pair, _ in known],
        text=[describe_point(best, *pair, value, metric=metric) for pair, value in known],
        name=name,
        mode="lines+markers",
        line={"color": colours(theme)[style.colour], "dash": style.dash, "width": 2},
        marker={"symbol": style.symbol, "size": 9, "line": outline(theme)},
    )


def _mark(name: str, threshold: float, colour: str, theme: Theme) -> go.Scatter:
    line = {"color": colours(theme)[colour], "dash": "dot" if name.startswith("best") else "solid", "width": 2}
    words = f"{name}, {format_threshold(threshold)}"
    return go.Scatter(x=[threshold] * 2, y=[0, 1], name=words, mode="lines", line=line, hoverinfo="skip")


def _along(scores: GridScores, best: BestPoint, decides: Decision) -> Iterator[tuple[tuple[float, float], float]]:
    """Yield the points through the best one along the axis of a decision; off the grid, those nearest to it."""
    other = int(decides == "speak")
    nearest = _find_nearest(best, other)
    for pair, point in zip(scores.grid.pairs(), scores.points, strict=True):
        if math.isnan(pair[other]) or pair[other] == nearest:
            yield pair, point[best.metric]


def _find_nearest(best: BestPoint, axis: int) -> float:
    """Return the threshold of the grid that is nearest to that of the best point; nan if it is not swept."""
    values, wanted = (best.grid.speak, best.grid.update)[axis], best.thresholds[axis]
    return min(values, key=lambda value: abs(value - wanted), default=math.nan)


def _name_curve(best: BestPoint, decides: Decision) -> str:
    """Return the title of a curve, with the other threshold of the best point."""
    titles = best.grid.titles
    if best.grid.has_theta:
        return "theta"
    others = [
        f", at {plain(title)} {_find_nearest(best, int(other == 'update')):g}"
        for other, title in titles.items()
        if other != decides
    ]
    return plain(titles[decides]) + "".join(others)


def _has_one_unit(grid: Grid) -> bool:
    """Return whether one axis of thresholds is enough: no signal has a range of its own beside another."""
    return not grid.specs or len(grid.titles) == 1 or grid.speak == grid.update


def _place(grid: Grid, decides: Decision, pair: tuple[float, float]) -> float:
    """Return the place of a point on the axis of thresholds: the threshold, or its share of the swept range."""
    values, value = (grid.update, pair[1]) if decides == "update" else (grid.speak, pair[0])
    if _has_one_unit(grid) or len(values) == 1:
        return axis_value(grid, decides, value)
    return (value - values[0]) / (values[-1] - values[0])


def _threshold_axis(grid: Grid) -> dict[str, Any]:
    if not grid.specs:
        return unit_axis("Theta" if grid.has_theta else "Threshold")
    if not _has_one_unit(grid):
        return unit_axis("Share of the swept range of each threshold")
    titles = [plain(title) for title in grid.titles.values()]
    return {"title": {"text": f"Threshold of {' or '.join(titles)}"}, "zeroline": False}


def threshold_title(grid: Grid, decides: Decision) -> str:
    """Return the title of an axis of thresholds."""
    spec = grid.specs.get(decides)
    if decides == "speak" and grid.has_theta:
        return "Theta"
    return f"{decides.capitalize()} threshold" if spec is None else f"Threshold of {plain(spec.title)}"


def axis_value(grid: Grid, decides: Decision, threshold: float) -> float:
    """Return a threshold as its axis has it: theta in place of a speaking threshold, where the rule has it."""
    return convert_theta(threshold) if decides == "speak" and grid.has_theta else threshold


def describe_point(best: BestPoint, speak: float, update: float, value: float, *, metric: str = "") -> str:
    """Return the thresholds and the score of a point, by default the score of the best one."""
    found = find_metric(metric or best.metric)
    where = plain(best.grid.describe(speak, update))
    return f"{where}<br>{found.label}{best.grid.of_rule} {format_score(value, is_count=found.is_count)}"


def describe_best(best: BestPoint) -> str:
    """Return the best point with its score."""
    found = find_metric(best.metric)
    return f"{best.place}, {found.label}{best.grid.of_rule} {format_score(best.value, is_count=found.is_count)}"

"""Curves of the per-frame decisions of each signal, with the point of the decisions of the run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import (
    HEADS,
    Style,
    colours,
    diagonal,
    make_chart,
    make_empty_chart,
    outline,
    plain,
    unit_axis,
)
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.engine.config import format_threshold
from stepscope.engine.decisions.signals import Decision
from stepscope.eval.metrics.decisions import PREFIXES
from stepscope.eval.reports.table_files import Results

Curve = Literal["precision_recall", "roc", "reliability"]
Points = Sequence[Mapping[str, float]]
_STYLES: Final = (
    Style("latency", "dash", "diamond", "x"),
    Style("user", "dot", "cross", "\\"),
    Style("done", "dashdot", "triangle-up", "-"),
    Style("reference", "longdash", "triangle-down", "."),
)
"""Styles of named signals, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """One signal, its scores and how it is drawn."""

    title: str
    style: Style
    scores: Mapping[str, float | None]
    """By the names of ``summarize_decisions``."""
    charts: Mapping[str, Points]
    """Points of each ``Curve``; empty if unknown."""
    point: Mapping[str, float] | None
    """Rates of the decisions of the run; None if unknown."""
    threshold: float | None


def list_deciders(results: Results, curve: Curve) -> list[Decider]:
    """Return the signals of a run with a curve, or at least with a point; the probabilities first."""
    heads = [_read_head(results, head) for head in HEADS]
    found = [decider for decider in [*heads, *_read_named(results)] if decider.charts[curve]]
    sums = [decider for decider in _read_named(results) if not decider.charts["roc"] and curve != "reliability"]
    return [*found, *sums]


def _read_head(results: Results, head: Decision) -> Decider:
    charts, scores, prefix = results.charts, results.metrics.get("scores", {}), PREFIXES[head]
    config = results.metrics.get("config")
    threshold = config.get(f"{head}_threshold") if isinstance(config, Mapping) else None
    return Decider(
        title=head,
        style=HEADS[head],
        scores={name.removeprefix(prefix): scores[name] for name in scores if name.startswith(prefix)},
        charts={name: charts.get(name, {}).get(head) or [] for name in ("precision_recall", "roc", "reliability")},
        point=charts.get("operating_points", {}).get(head),
        threshold=float(threshold) if isinstance(threshold, int | float) and 0 <= threshold <= 1 else None,
    )


def _read_named(results: Results) -> list[Decider]:
    scores: Any = results.metrics.get("signal_scores") or {}
    return [
        Decider(
            title=plain(signal["title"]),
            style=style,
            scores=scores.get(name, {}).get("scores", {}),
            charts=signal,
            point=signal["operating_point"],
            threshold=None if math.isnan(signal["threshold"]) else signal["threshold"],
        )
        for (name, signal), style in zip(results.charts.get("signals", {}).items(), cycle(_STYLES), strict=False)
    ]


NOT_SCORED: Final = "No data: this run has no probabilities, or is not scored yet."
_SCORES: Final = {"average_precision": "average precision", "auroc": "AUROC"}
_RATES: Final = {"precision": "precision", "recall": "recall", "false_positive_rate": "false positive rate"}
RUN_POINT: Final = "Large marker: the decisions of this run"


def precision_recall(results: Results, theme: Theme) -> go.Figure:
    """Return precision over recall for all thresholds, with the point of the run."""
    deciders = list_deciders(results, "precision_recall")
    if not deciders:
        return make_empty_chart(theme, NOT_SCORED)
    return make_chart(
        _curves(deciders, theme, "precision_recall", x="recall", y="precision", score="average_precision"),
        theme,
        x=unit_axis("Recall (expected frames found)"),
        y=unit_axis("Precision (decisions right)"),
        note=RUN_POINT if any(decider.point for decider in deciders) else "",
        summary=_describe(deciders, "average_precision"),
    )


def roc(results: Results, theme: Theme) -> go.Figure:
    """Return recall over the false positive rate for all thresholds, with the point of the run."""
    deciders = list_deciders(results, "roc")
    if not deciders:
        return make_empty_chart(theme, NOT_SCORED)
    return make_chart(
        [
            diagonal(theme),
            *_curves(deciders, theme, "roc", x="false_positive_rate", y="recall", score="auroc"),
        ],
        theme,
        x=unit_axis("False positive rate (other frames)"),
        y=unit_axis("Recall (expected frames found)"),
        note=f"{RUN_POINT}. Dotted: chance",
        summary=_describe(deciders, "auroc"),
    )


def _curves(deciders: Sequence[Decider], theme: Theme, curve: Curve, *, x: str, y: str, score: str) -> list[go.Scatter]:
    """Return a curve and the point of the run for each signal; of a running sum the point alone."""
    traces = []
    for decider in deciders:
        points, colour = decider.charts[curve], colours(theme)[decider.style.colour]
        if points:
            traces.append(
                go.Scatter(
                    x=[point[x] for point in points],
                    y=[point[y] for point in points],
                    text=[_words(decider.title, point["threshold"], point, names=(x, y)) for point in points],
                    name=f"{decider.title}, {_SCORES[score]} {format_score(decider.scores.get(score))}",
                    mode="lines",
                    line={"color": colour, "dash": decider.style.dash, "width": 2},
                )
            )
        at = decider.point
        if at is not None and not math.isnan(at[x] + at[y]):
            traces.append(
                go.Scatter(
                    x=[at[x]],
                    y=[at[y]],
                    text=[f"this run: {_words(decider.title, decider.threshold, at, names=(x, y))}"],
                    name=f"{decider.title} of this run",
                    mode="markers",
                    marker={"color": colour, "symbol": decider.style.symbol, "size": 13, "line": outline(theme)},
                    showlegend=not points,
                )
            )
    return traces


def _words(title: str, threshold: float | None, point: Mapping[str, float], *, names: tuple[str, str]) -> str:
    is_known = threshold is not None and not math.isnan(threshold)
    where = f" at threshold {format_threshold(threshold)}" if threshold is not None and is_known else ""
    return "<br>".join([f"{title}{where}", *(f"{_RATES[name]} {format_score(point[name])}" for name in names)])


def _describe(deciders: Sequence[Decider], score: str) -> str:
    """Return the score of each signal, and the rates of the run."""
    parts = []
    for decider in deciders:
        rates = [f"{_RATES[name]} {format_score((decider.point or {}).get(name))}" for name in _RATES]
        value = format_score(decider.scores.get(score))
        parts.append(f"{decider.title}: {_SCORES[score]} {value}; this run {', '.join(rates)}")
    return ". ".join(parts)

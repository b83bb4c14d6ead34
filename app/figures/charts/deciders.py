"""The signals whose decisions are charted: both probabilities, and the named signals of a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal

from stepscope.app.figures.charts.layout import HEADS, plain
from stepscope.eval.reports.table_files import Results

Curve = Literal["precision_recall", "roc", "reliability"]
Points = Sequence[Mapping[str, float]]
_STYLES: Final = (
    ("latency", "dash", "diamond", "x"),
    ("user", "dot", "cross", "\\"),
    ("done", "dashdot", "triangle-up", "-"),
    ("reference", "longdash", "triangle-down", "."),
)
"""Colours, dashes, symbols and patterns of named signals, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """One signal, its scores and how it is drawn."""

    title: str
    """Name as Plotly shows it."""
    colour: str
    dash: str
    symbol: str
    pattern: str
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


def _read_head(results: Results, head: str) -> Decider:
    style, charts = HEADS[head], results.charts
    scores = results.metrics.get("scores", {})
    config = results.metrics.get("config")
    threshold = config.get(f"{head}_threshold") if isinstance(config, Mapping) else None
    return Decider(
        title=head,
        colour=head,
        dash=style.dash,
        symbol=style.symbol,
        pattern=style.pattern,
        scores={name.removeprefix(style.prefix): scores[name] for name in scores if name.startswith(style.prefix)},
        charts={name: charts.get(name, {}).get(head) or [] for name in ("precision_recall", "roc", "reliability")},
        point=charts.get("operating_points", {}).get(head),
        threshold=float(threshold) if isinstance(threshold, int | float) and 0 <= threshold <= 1 else None,
    )


def _read_named(results: Results) -> list[Decider]:
    scores: Any = results.metrics.get("signal_scores") or {}
    return [
        Decider(
            title=plain(signal["title"]),
            colour=colour,
            dash=dash,
            symbol=symbol,
            pattern=pattern,
            scores=scores.get(name, {}).get("scores", {}),
            charts=signal,
            point=signal["operating_point"],
            threshold=None if math.isnan(signal["threshold"]) else signal["threshold"],
        )
        for (name, signal), (colour, dash, symbol, pattern) in zip(
            results.charts.get("signals", {}).items(), cycle(_STYLES), strict=False
        )
    ]

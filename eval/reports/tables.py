"""Scores as files and as a table in the terminal. An undefined score is an empty cell, and null in JSON."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path

from engine.io import write_csv
from eval.metrics.bootstrap import NO_INTERVAL, Interval
from eval.metrics.definitions import GROUPS, METRICS, Better, Metric


def write_columns(path: Path) -> None:
    """Write the definitions of the columns of ``videos.csv``, a row per column."""
    write_csv(
        path,
        [
            {
                "column": metric.name,
                "definition": metric.definition,
                "range": metric.range,
                "better": metric.better,
                "beware": metric.caveat,
                "source": metric.source,
            }
            for metric in METRICS
            if metric.scope != "split"
        ],
    )


def format_scores(scores: Mapping[str, float], intervals: Mapping[str, Interval]) -> str:
    """Return the main scores with their intervals, one line each, under the headings of their groups."""
    shown = {group.name: [m for m in group.metrics if m.name in scores and not m.is_detail] for group in GROUPS}
    width = max((len(metric.name) for metrics in shown.values() for metric in metrics), default=0)
    lines = []
    for heading, metrics in shown.items():
        undefined = [metric.name for metric in metrics if math.isnan(scores[metric.name])]
        lines.append(f"\n{heading}")
        for metric in metrics:
            value, interval = scores[metric.name], intervals.get(metric.name, NO_INTERVAL)
            if not math.isnan(value):
                figures = f"{_format_value(value, metric):>9}  {_format_interval(interval, metric):21}"
                lines.append(f"  {metric.name:{width}} {figures} {_format_better(metric.better)}".rstrip())
        if undefined:
            text = f"undefined: {', '.join(undefined)}"
            lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines).strip("\n")


def _format_better(better: Better) -> str:
    return "" if better == "neither" else f"best {better}" if better.startswith("near") else f"{better} is better"


def _format_value(value: float, metric: Metric) -> str:
    return f"{value:.0f}" if metric.is_count else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _format_interval(interval: Interval, metric: Metric) -> str:
    is_known = not (metric.is_count or math.isnan(interval.low))
    return f"[{_format_value(interval.low, metric)}, {_format_value(interval.high, metric)}]" if is_known else ""

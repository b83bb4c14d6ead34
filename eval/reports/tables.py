"""Scores as files and as a table in the terminal. An undefined score is an empty cell, and null in JSON."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path

from stepscope.engine.io.files import write_csv
from stepscope.eval.metrics.counts import NO_INTERVAL, Interval
from stepscope.eval.metrics.definitions import GROUPS, METRICS, Metric, find_metric
from stepscope.eval.reports.statistics import Difference


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
        ]
        + [{"column": "scoring", "definition": "Judge, text encoder and settings of the scores of the row."}],
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
                better = {"neither": "", "higher": "higher is better", "lower": "lower is better"}.get(metric.better)
                direction = f"best {metric.better}" if better is None else better
                lines.append(f"  {metric.name:{width}} {figures} {direction}".rstrip())
        if undefined:
            text = f"undefined: {', '.join(undefined)}"
            lines += textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines).strip("\n")


def tabulate_differences(differences: Mapping[str, Difference]) -> list[dict[str, str | float]]:
    """Return a row per score of two compared runs, for CSV and JSON."""
    return [{"score": name, **found.columns(), "corrected_p": found.corrected_p} for name, found in differences.items()]


def format_differences(differences: Mapping[str, Difference], labels: Mapping[str, str] | None = None) -> str:
    """Return the scores of two compared runs and their differences, one line each; ``labels`` replace their names."""
    names = {name: (labels or {}).get(name, name) for name in differences}
    width = max(map(len, names.values()), default=0)
    lines = [f"{'':{width}} {'A':>9} {'B':>9} {'B - A':>9}  {'95 % interval':21} {'p':5} corrected"]
    for name, found in differences.items():
        metric = find_metric(name)
        values = [_format_value(value, metric) for value in (found.a, found.b)]
        change = "" if math.isnan(found.difference) else f"{found.difference:+.{0 if metric.is_count else 3}f}"
        interval = found.interval.describe(sign="+")
        tests = "" if math.isnan(found.p_value) else f"{found.p_value:.3f} {found.corrected_p:.3f}"
        lines.append(f"{names[name]:{width}} {values[0]:>9} {values[1]:>9} {change:>9}  {interval:21} {tests}".rstrip())
    return "\n".join(lines)


def _format_value(value: float, metric: Metric) -> str:
    return f"{value:.0f}" if metric.is_count else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def _format_interval(interval: Interval, metric: Metric) -> str:
    is_known = not (metric.is_count or math.isnan(interval.low))
    return f"[{_format_value(interval.low, metric)}, {_format_value(interval.high, metric)}]" if is_known else ""

"""Charts of the probabilities and times of decisions: calibration, leads and model time."""

import math
from typing import Final

import plotly.graph_objects as go

from stepscope.app.figures.charts.decisions import NOT_SCORED, list_deciders
from stepscope.app.figures.charts.layout import (
    HEADS,
    bar_marker,
    colours,
    diagonal,
    make_chart,
    make_empty_chart,
    outline,
    unit_axis,
)
from stepscope.app.formatting import format_score
from stepscope.app.style.colours import Theme
from stepscope.eval.metrics.decisions import NUM_BINS, PREFIXES
from stepscope.eval.reports.table_files import Results

MEDIAN, TAIL = 0.5, 0.95
_TIMES_MS: Final = [digit * 10.0**power for power in range(-1, 5) for digit in (1, 2, 5)]
_COUNTS_TOP: Final = 0.22
"""Height of the counts below the reliability diagram, as a share of the plot."""


def reliability(results: Results, theme: Theme) -> go.Figure:
    """Return the share of expected frames over the probability, above the number of frames in each tenth."""
    deciders = list_deciders(results, "reliability")
    if not deciders:
        return make_empty_chart(theme, NOT_SCORED)
    most = max(1, *(tenth["num_frames"] for decider in deciders for tenth in decider.charts["reliability"]))
    traces: list[go.Scatter | go.Bar] = [diagonal(theme)]
    for decider in deciders:
        head, tenths, style = decider.title, decider.charts["reliability"], decider.style
        colour = colours(theme)[style.colour]
        error = format_score(decider.scores.get("ece"))
        texts = [
            f"{head}: {tenth['num_frames']:,.0f} frames<br>mean probability {tenth['mean_prob']:.3f}"
            f"<br>expected share {tenth['expected_share']:.3f}"
            for tenth in tenths
        ]
        hover = {"text": texts, "legendgroup": head}
        traces += [
            go.Scatter(
                x=[tenth["mean_prob"] for tenth in tenths],
                y=[tenth["expected_share"] for tenth in tenths],
                name=f"{head}, calibration error {error}",
                mode="lines+markers",
                line={"color": colour, "dash": style.dash, "width": 2},
                marker={"color": colour, "symbol": style.symbol, "size": 9, "line": outline(theme)},
                **hover,
            ),
            go.Bar(
                x=[(min(int(tenth["mean_prob"] * NUM_BINS), NUM_BINS - 1) + 0.5) / NUM_BINS for tenth in tenths],
                y=[tenth["num_frames"] for tenth in tenths],
                marker=bar_marker(theme, style.colour, style.pattern),
                yaxis="y2",
                showlegend=False,
                **hover,
            ),
        ]
    return make_chart(
        traces,
        theme,
        x={**unit_axis("Probability"), "anchor": "y2", "range": [-0.01, 1.02]},
        y={**unit_axis("Expected share"), "domain": [_COUNTS_TOP + 0.12, 1], "dtick": 0.25, "tickformat": ".2f"},
        yaxis2={
            "type": "log",
            "domain": [0, _COUNTS_TOP],
            "title": {"text": "Frames", "font": {"size": 11}},
            "tickfont": {"size": 11},
            "tickformat": "~s",
            "dtick": math.ceil(math.log10(most) / 2) or 1,
            "range": [math.log10(0.5), math.log10(most) + 0.1],
        },
        bargap=0.1,
        note="Dotted: perfectly calibrated. Bars: frames (log scale)",
        summary=". ".join(
            f"{decider.title}: calibration error {format_score(decider.scores.get('ece'))}" for decider in deciders
        ),
    )


def leads(results: Results, theme: Theme) -> go.Figure:
    """Return the number of decisions by their time after the reference, in half seconds."""
    found = {head: points for head, points in results.charts.get("leads_s", {}).items() if points}
    if not found:
        return make_empty_chart(theme, "No decision is within 5 s of a reference decision.")
    medians = {head: results.metrics.get("scores", {}).get(f"{PREFIXES[head]}lead_median_s") for head in found}
    words = {head: f"{head}, median {format_score(median)} s" for head, median in medians.items()}
    widest = max(abs(point["lead_s"]) for points in found.values() for point in points)
    return make_chart(
        [
            go.Bar(
                x=[point["lead_s"] for point in points],
                y=[point["num_events"] for point in points],
                name=words[head],
                marker=bar_marker(theme, head, HEADS[head].pattern),
                width=0.2,
                offset=-0.2 if head == "speak" else 0,
                text=[f"{head}: {point['num_events']:,.0f} at {point['lead_s']:+g} s" for point in points],
            )
            for head, points in found.items()
        ],
        theme,
        x={
            "title": {"text": "Seconds after the reference (negative: early)"},
            "range": [-max(widest, 2) - 0.5, max(widest, 2) + 0.5],
            "zeroline": True,
            "zerolinecolor": colours(theme)["reference"],
        },
        y={"title": {"text": "Decisions"}, "rangemode": "tozero"},
        note="Decisions within 5 s of a reference decision",
        summary=". ".join(words.values()),
    )


def latency(results: Results, theme: Theme) -> go.Figure:
    """Return the share of frames with at most a model time, with the median and the 95th percentile."""
    levels = {point["share"]: point["latency_ms"] for point in results.charts.get("latency_ms", [])}
    if not levels or max(levels.values()) <= 0:
        return make_empty_chart(theme, "No data: times were not measured.")
    colour = colours(theme)["latency"]
    marked = {share: levels[share] for share in (MEDIAN, TAIL) if share in levels}
    words = [f"{share:.0%} of the frames take at most {time_ms:,.1f} ms" for share, time_ms in marked.items()]
    return make_chart(
        [
            go.Scatter(
                x=list(levels.values()),
                y=list(levels),
                mode="lines",
                line={"color": colour, "width": 2, "shape": "hv"},
                text=[f"{share:.0%} of the frames: at most {time_ms:,.1f} ms" for share, time_ms in levels.items()],
                showlegend=False,
            ),
            go.Scatter(
                x=list(marked.values()),
                y=list(marked),
                mode="markers+text",
                marker={"color": colour, "symbol": "diamond", "size": 11, "line": outline(theme)},
                text=[f"{share:.0%}: {time_ms:,.1f} ms" for share, time_ms in marked.items()],
                textposition="bottom right",
                textfont={"size": 11},
                hoverinfo="skip",
                showlegend=False,
            ),
        ],
        theme,
        x={"title": {"text": "Model time of a frame (ms, log scale)"}, "type": "log", "tickvals": _TIMES_MS},
        y={**unit_axis("Share of frames"), "tickformat": "~%"},
        note="The share of its pass that a frame takes. First frames include the prompt",
        summary=". ".join(words),
    )

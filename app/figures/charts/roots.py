"""The chart of a diagnosis: the roots of a run by class, and how many failures follow from each."""

import math
from collections import Counter

import plotly.graph_objects as go

from stepscope.app.figures.charts.layout import (
    SMALL_PX,
    TEXT_COLOURS,
    bar_marker,
    colours,
    make_chart,
    make_empty_chart,
    outline,
    plain,
)
from stepscope.app.style.colours import Theme
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import ROOTS
from stepscope.eval.reports.table_files import Results
from stepscope.eval.runs.roots import RunDiagnosis


def roots(results: Results, theme: Theme) -> go.Figure:
    """Return the share of the roots of each class with its interval, beside the consequences of each root.

    The ``customdata`` of a bar is its class.
    """
    diagnosis = results.diagnosis
    if diagnosis is None:
        return make_empty_chart(theme, "No data: explain the run first.")
    counted = {row["video_id"]: row.get(ROOTS) for row in results.rows}  # nan where a diagnosis is stale
    if any(counted.get(video.video_id) != len(video.roots) for video in diagnosis.videos):
        return make_empty_chart(theme, "No data: the diagnosis is out of date: explain the run again.")
    if not diagnosis.classes:
        return make_empty_chart(theme, "No data: there is no failure.")
    follow, classes = diagnosis.consequences, diagnosis.classes
    number = format_count(sum(share.number for share in classes.values()), "first mistake")
    videos = format_count(len(diagnosis.videos), "video")
    note = f"{follow.number} failures ({follow.share:.0%}) follow from {number}"
    small = {"tickfont": {"size": SMALL_PX}, "zeroline": False, "rangemode": "tozero"}
    return make_chart(
        [_draw_shares(diagnosis, theme), _draw_consequences(diagnosis, theme)],
        theme,
        x={"title": {"text": "Share of first mistakes"}, "tickformat": "~%", "domain": [0, 0.5], "range": [0, 1]},
        y={
            "autorange": "reversed",
            "tickvals": [plain(name) for name in classes],
            "ticktext": [f"{plain(name)}, {share.number}" for name, share in classes.items()],
        },
        xaxis2={"title": {"text": "By consequences"}, "domain": [0.64, 1], **small},
        margin={"l": 52, "r": 16, "t": 62, "b": 48},
        note=note,
        summary=f"{note} in {videos}; " + ", ".join(f"{name} {share.number}" for name, share in classes.items()),
    )


def _draw_shares(diagnosis: RunDiagnosis, theme: Theme) -> go.Bar:
    shares = diagnosis.classes.values()
    known = [share.interval if share.interval.get("low", math.nan) >= 0 else {} for share in shares]  # nan of one video
    pairs = list(zip(shares, known, strict=True))
    lows, highs = ([ends.get(end, share.share) for share, ends in pairs] for end in ("low", "high"))
    return go.Bar(
        x=[share.share for share in shares],
        y=[plain(name) for name in diagnosis.classes],
        width=0.45,
        orientation="h",
        customdata=list(diagnosis.classes),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - share.share for high, share in zip(highs, shares, strict=True)],
            "arrayminus": [share.share - low for low, share in zip(lows, shares, strict=True)],
            "color": TEXT_COLOURS[theme],
        },
        hovertemplate="%{x:.0%}<extra></extra>",
        marker=bar_marker(theme, "missed"),
        showlegend=False,
    )


def _draw_consequences(diagnosis: RunDiagnosis, theme: Theme) -> go.Scatter:
    """Return a disc for all roots of a class with as many consequences, with the number of these roots."""
    found = [root for video in diagnosis.videos for root in video.roots if root.cause in diagnosis.classes]
    counts = Counter((plain(root.cause), root.num_consequences) for root in found)
    return go.Scatter(
        x=[number for _, number in counts],
        y=[name for name, _ in counts],
        xaxis="x2",
        mode="markers+text",
        text=[str(roots) for roots in counts.values()],
        textfont={"size": SMALL_PX},
        marker={
            "color": colours(theme)["update"],
            "size": [12 + min(roots, 12) for roots in counts.values()],
            "opacity": 0.5,
            "line": outline(theme),
        },
        hovertemplate="%{text} with %{x} consequences<extra></extra>",
        showlegend=False,
    )

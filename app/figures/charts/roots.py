"""The chart of a diagnosis: the roots of a run by class, and how many failures follow from each."""

from collections import Counter
from typing import Final

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
from stepscope.eval.runs.roots import KeptShare, Root, RunDiagnosis

_BARS: Final = (0.0, 0.52)
_DOTS: Final = (0.62, 1.0)
"""Parts of the width that the shares and the consequences take."""


def roots(results: Results, theme: Theme) -> go.Figure:
    """Return the share of the roots of each class with its interval, beside the consequences of each root."""
    diagnosis = results.diagnosis
    if diagnosis is None:
        return make_empty_chart(theme, "No data: the run is not diagnosed (stepscope explain).")
    if _is_stale(diagnosis, results):
        return make_empty_chart(theme, "No data: the diagnosis is out of date (stepscope explain).")
    found = [root for video in diagnosis.videos for root in video.roots]
    if not found or not diagnosis.classes:
        return make_empty_chart(theme, "No data: no failure, so no root.")
    names = list(diagnosis.classes)
    shares = [diagnosis.classes[name] for name in names]
    follow, number = diagnosis.consequences, format_count(len(found), "root")
    videos = format_count(len(diagnosis.videos), "video")
    note = f"{number} in {videos}, 95 % intervals; {follow.number} failures ({follow.share:.0%}) follow from them"
    return make_chart(
        [_draw_shares(names, shares, theme), _draw_consequences(names, found, theme)],
        theme,
        x={
            "title": {"text": "Share of roots"},
            "tickformat": "~%",
            "domain": _BARS,
            "range": [0, 1],
        },
        y={
            "autorange": "reversed",
            "tickvals": [plain(name) for name in names],
            "ticktext": [f"{plain(name)}, {share.number}" for name, share in diagnosis.classes.items()],
        },
        xaxis2={
            "title": {"text": "Roots by consequences"},
            "tickfont": {"size": SMALL_PX},
            "domain": _DOTS,
            "rangemode": "tozero",
            "zeroline": False,
        },
        margin={"l": 52, "r": 16, "t": 62, "b": 48},
        note=note,
        summary=f"{note}; " + ", ".join(f"{name} {share.number}" for name, share in diagnosis.classes.items()),
    )


def _is_stale(diagnosis: RunDiagnosis, results: Results) -> bool:
    """Return whether the table of videos, which lacks roots that are out of date, has other roots."""
    counted = {row["video_id"]: row.get(ROOTS) for row in results.rows}
    return any(counted.get(video.video_id) != len(video.roots) for video in diagnosis.videos)


def _draw_shares(names: list[str], shares: list[KeptShare], theme: Theme) -> go.Bar:
    bounds = [(share.interval.get("low", share.share), share.interval.get("high", share.share)) for share in shares]
    return go.Bar(
        x=[share.share for share in shares],
        y=[plain(name) for name in names],
        width=0.45,
        orientation="h",
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - share.share for (_, high), share in zip(bounds, shares, strict=True)],
            "arrayminus": [share.share - low for (low, _), share in zip(bounds, shares, strict=True)],
            "color": TEXT_COLOURS[theme],
        },
        text=[
            f"{plain(name)}: {format_count(share.number, 'root')}, {share.share:.0%} [{low:.0%}, {high:.0%}]"
            for name, share, (low, high) in zip(names, shares, bounds, strict=True)
        ],
        marker=bar_marker(theme, "missed"),
        showlegend=False,
    )


def _draw_consequences(names: list[str], found: list[Root], theme: Theme) -> go.Scatter:
    """Return a disc for all roots of a class with the same number of consequences, with the number of these roots."""
    counts = sorted(Counter((root.cause, root.num_consequences) for root in found if root.cause in names).items())
    return go.Scatter(
        x=[number for (_, number), _ in counts],
        y=[plain(name) for (name, _), _ in counts],
        xaxis="x2",
        mode="markers+text",
        text=[str(roots) for _, roots in counts],
        textfont={"size": 11},
        marker={
            "color": colours(theme)["update"],
            "size": [14 + 2 * min(roots, 8) for _, roots in counts],
            "opacity": 0.5,
            "line": outline(theme),
        },
        hovertext=[
            f"{plain(name)}: {format_count(roots, 'root')} with {format_count(number, 'consequence')}"
            + (" each" if roots > 1 else "")
            for (name, number), roots in counts
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
    )

"""The legend of a timeline: the signs that occur, in as few lines as possible."""

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from stepscope.app.figures.text import LINE, text_width
from stepscope.app.figures.timeline.sheet import Sheet
from stepscope.app.figures.timeline.signals import mark_line

_ORDER: Final = (
    "matched",
    "early or late",
    "wrong text",
    "redundant",
    "repeats itself",
    "missed",
    "user turn not given",
    "decision in time",
    "unexpected decision",
    "no decision",
    "decision",
    "threshold",
    "not started",
    "in progress",
    "completed",
    "model differs",
    "cache refresh",
)


def draw_legend(sheet: Sheet) -> None:
    """Add the entries of the signs, from the left edge of the figure."""
    size = sheet.size
    if not sheet.signs:
        return
    x, y = 4.0, sheet.top + LINE * size / 2
    spots = []
    for entry in sorted(sheet.signs, key=_ORDER.index):
        width = 1.3 * size + text_width(entry, size) + 0.9 * size
        if x + width - 0.9 * size > sheet.width_px and x > 4:
            x, y = 4.0, y + LINE * size
        sign = sheet.signs[entry]
        if text := sign.get("text"):
            sheet.label([text], y, x=x + (size - text_width(text, size)) / 2, colour=sign["color"])
        else:
            spots.append((sign, x + size / 2, y))
        sheet.label([entry], y, x=x + 1.3 * size)
        x += width
    _draw_markers(sheet, spots)
    sheet.top = y + LINE * size / 2 + 4


def _draw_markers(sheet: Sheet, spots: Sequence[tuple[dict[str, Any], float, float]]) -> None:
    """Add the signs that are markers, each at its place in pixels."""
    signs = [sign for sign, _, _ in spots]
    widths = [1.4 if sign["symbol"].endswith("-open") else mark_line(sign["symbol"], "")["width"] for sign in signs]
    sheet.add(
        go.Scatter(
            x=[x for _, x, _ in spots],
            y=[y for _, _, y in spots],
            mode="markers",
            marker={
                "symbol": [sign["symbol"] for sign in signs],
                "color": [sign["color"] for sign in signs],
                "size": [sign.get("size", 0.72 * sheet.size) for sign in signs],
                "line": {"width": widths, "color": [sign["color"] for sign in signs]},
            },
            xaxis="x2",
            yaxis="y",
            hoverinfo="skip",
            cliponaxis=False,
        )
    )

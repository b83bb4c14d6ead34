"""The table of clips on the page. Names and problems are untrusted: they are in cells of type ``str`` only."""

import math
from collections.abc import Sequence
from typing import Final

from stepscope.eval.training.results import ClipRow

HEADERS: Final = (
    "Clip",
    "Minutes",
    "Responses",
    "Updates",
    "User turns",
    "Turns per minute",
    "Frames that speak, %",
    "Frames that update, %",
    "Steps never updated",
    "Contexts",
    "Longest context, tokens",
    "Problem",
)
MAX_ROWS: Final = 1000
"""Rows that a browser shows without delay; ``clips.csv`` has all."""


def clip_table(rows: Sequence[ClipRow]) -> list[list[str | float | None]]:
    """Return the cells of up to ``MAX_ROWS`` clips: unusable ones, then others with a problem, then in order."""
    ordered = sorted(rows, key=lambda row: (row.is_used, not row.problem))
    return [_cells(row) for row in ordered[:MAX_ROWS]]


def _cells(row: ClipRow) -> list[str | float | None]:
    if not row.is_used:
        return [row.video_id, *[None] * (len(HEADERS) - 2), f"unusable: {row.problem}"]
    return [
        row.video_id,
        _round(row.minutes, 2),
        row.responses,
        row.updates,
        row.user_turns,
        _round(row.turns_per_minute, 1),
        _round(100 * row.speaking_rate, 1),
        _round(100 * row.update_rate, 1),
        row.steps_never_seen,
        row.contexts,
        row.longest_context,
        row.problem,
    ]


def _round(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)

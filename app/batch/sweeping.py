"""A sweep as the page shows it: a heat map over both thresholds, and a curve for each through the best point."""

import math
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from app.batch.results import figure
from eval.grid import BestPoint, Grid, GridScores
from eval.registry import find_metric

SIZES: Final = (5, 9, 19)
"""Thresholds an axis."""


def make_grid(size: int) -> Grid:
    """Return ``size`` thresholds from 0.05 to 0.95 on each axis."""
    axis = tuple(np.linspace(0.05, 0.95, size).round(3).tolist())
    return Grid(speak=axis, update=axis)


def draw_heat_map(scores: GridScores, best: BestPoint) -> str:
    """Draw one score over the grid: update threshold upwards, speak threshold to the right, the best point outlined."""
    rows = scores.surface(best.metric)
    known = [value for row in rows for value in row if not math.isnan(value)]
    low, high = min(known), max(known)
    cells = []
    for place in reversed(range(len(rows))):
        update = scores.grid.update[place]
        cells.append(f'<span class="axis">{update:.2f}</span>')
        for speak, value in zip(scores.grid.speak, rows[place], strict=True):
            share = 0.0 if math.isnan(value) or high == low else (value - low) / (high - low)
            is_best = (speak, update) == (best.speak_threshold, best.update_threshold)
            cells.append(
                f'<span class="cell{" best" if is_best else ""}" style="--share: {100 * share:.1f}%" '
                f'title="speak {speak:g}, update {update:g}: {figure(value)}"></span>'
            )
    cells.append("<span></span>")
    cells += [f'<span class="axis">{speak:.2f}</span>' for speak in scores.grid.speak]
    label = f"{best.metric} from {figure(low)} to {figure(high)} over speak and update threshold"
    return (
        f'<div class="heat" role="img" aria-label="{label}" style="--columns: {len(scores.grid.speak)}">'
        f'{"".join(cells)}</div><p class="dim">{best.metric}: pale is {figure(low)}, full is {figure(high)}; outlined '
        "is the best. To the right: speak threshold; upwards: update threshold.</p>"
    )


def curves(scores: GridScores, best: BestPoint) -> pd.DataFrame:
    """Return columns ``threshold``, ``score``, ``head``: along each axis through the best point."""
    rows = scores.surface(best.metric)
    row = scores.grid.update.index(best.update_threshold)
    column = scores.grid.speak.index(best.speak_threshold)
    points = [
        *({"threshold": t, "score": v, "head": "speak"} for t, v in zip(scores.grid.speak, rows[row], strict=True)),
        *(
            {"threshold": t, "score": values[column], "head": "update"}
            for t, values in zip(scores.grid.update, rows, strict=True)
        ),
    ]
    return pd.DataFrame(points, columns=["threshold", "score", "head"]).dropna()


def describe(scores: GridScores, best: BestPoint) -> str:
    """Say which point is best, how it was found, and what to beware of."""
    how = (
        "each point was run"
        if scores.is_exact
        else "a preview from the traces: another decision would change what follows"
    )
    name = Path(scores.split).name
    caution = f" Beware: {scores.caution.replace(scores.split, name)}." if scores.caution else ""
    errors = f" {len(scores.errors)} videos have no scores." if scores.errors else ""
    return f"Best {best}; {how}, {scores.num_videos} videos.{errors}{caution} {find_metric(best.metric).definition}"

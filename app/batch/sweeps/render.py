"""Rendering of a sweep: the choices of scores, the heat map, the curves and the description of the best point."""

import math
from html import escape
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from app.batch.results import format_score
from app.batch.sweeps.folders import FoundSweep
from engine.config import format_thresholds
from eval.metrics.definitions import NUM_FAILURES, find_metric
from eval.sweeps.grid import DECISION_F1, SWEEP_METRICS, BestPoint, GridScores, compute_losses, has_direction

RECOMMENDED: Final = "recommended"
"""The choice of the recommended score."""
_REASONS: Final = {
    NUM_FAILURES: "it counts all failures that N steps through in the player, and depends on both thresholds",
    DECISION_F1: "a preview has no texts and no states, and this score weighs both heads equally",
    "dst_f1": "this sweep is older than the count of failures: run each point again to count them",
}
"""Reasons for the recommended score; the first score that a sweep has is recommended."""


def choices(scores: GridScores | None) -> list[tuple[str, str]]:
    """Return the choices of scores: the recommended one, those of the points, and those that need exact points."""
    known = scores.metrics if scores is not None else ()
    offered = [(find_metric(name).label, name) for name in SWEEP_METRICS if has_direction(name)]
    return [
        (f"recommended: {find_metric(recommend(scores)).label}", RECOMMENDED),
        *((label, name) for label, name in offered if name in known),
        *((f"{label} (needs exact points)", name) for label, name in offered if name not in known),
    ]


def recommend(scores: GridScores | None) -> str:
    """Return the recommended score for these points."""
    known = scores.metrics if scores is not None else (NUM_FAILURES,)
    return next(name for name in _REASONS if name in known)


def draw_heat_map(scores: GridScores, best: BestPoint) -> str:
    """Return one score over the grid as HTML: x is the speak threshold, y the update threshold upwards.

    The opacity of a cell is its share between the worst score (0 %) and the best (100 %); the best point is outlined.
    """
    rows, metric = scores.as_matrix(best.metric), find_metric(best.metric)
    loss = compute_losses(best.metric, np.array(rows, float))
    least, most = float(np.nanmin(loss)), float(np.nanmax(loss))
    cells = []
    for row in reversed(range(len(rows))):  # HTML is from the top, so the largest update threshold is first
        update = scores.grid.update[row]
        cells.append(f'<span class="axis">{update:.3g}</span>')
        for column, (speak, value) in enumerate(zip(scores.grid.speak, rows[row], strict=True)):
            cell_loss = loss[row, column]
            share = 0.0 if math.isnan(cell_loss) or most == least else (most - cell_loss) / (most - least)
            is_best = (speak, update) == (best.speak_threshold, best.update_threshold)
            cells.append(
                f'<span class="cell{" best" if is_best else ""}" style="--share: {100 * share:.1f}%" '
                f'title="{format_thresholds(speak, update)}: {format_score(value, is_count=metric.is_count)}"></span>'
            )
    cells.append("<span></span>")
    cells += [f'<span class="axis">{speak:.3g}</span>' for speak in scores.grid.speak]
    worst = format_score(float(np.array(rows, float).flat[np.nanargmax(loss)]), is_count=metric.is_count)
    top = format_score(best.value, is_count=metric.is_count)
    label = f"{escape(metric.label)} from {worst} to {top} over speak and update threshold"
    return (
        f'<div class="heat" role="img" aria-label="{label}" style="--columns: {len(scores.grid.speak)}">'
        f'{"".join(cells)}</div><p class="dim">{escape(metric.label)}: faint is worst, {worst}; full is best, {top}; '
        "the best point is outlined. Horizontal: speak threshold; vertical: update threshold.</p>"
    )


def curves(scores: GridScores, best: BestPoint) -> pd.DataFrame:
    """Return columns ``threshold``, ``score``, ``head``: the scores along each axis through the best point."""
    rows = scores.as_matrix(best.metric)
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


def describe_best(found: FoundSweep, best: BestPoint, *, is_recommended: bool) -> str:
    """Return the description of the best point: score, ties, how it was computed, cautions, and the reason."""
    metric = find_metric(best.metric)
    reason = f" Recommended: {_REASONS[best.metric]}." if is_recommended else ""
    tied = "" if best.num_tied == 1 else f" {best.num_tied} points tie; {_plateau(best)}."
    name = Path(found.scores.split).name
    warning = f" Caution: {found.scores.warning.replace(found.scores.split, name)}." if found.scores.warning else ""
    return (
        f"Best: {format_thresholds(*best_thresholds(best))}; "
        f"{metric.label} {format_score(best.value, is_count=metric.is_count)}.{tied}{_edge(found.scores, best)} "
        f"{describe_points(found)}{warning}{reason}"
    )


def _plateau(best: BestPoint) -> str:
    if best.num_plateau == 1:
        return "no two of them are adjacent"
    group = "them" if best.num_plateau == best.num_tied else f"the {best.num_plateau} adjacent ones"
    return f"this one is in the middle of {group}"


def _edge(scores: GridScores, best: BestPoint) -> str:
    """Return a warning if the best point is at the edge of the grid."""
    sides = ((scores.grid.speak, best.speak_threshold, "speak"), (scores.grid.update, best.update_threshold, "update"))
    names = [name for side, value, name in sides if value in (side[0], side[-1])]
    return f" At the edge of the grid of {' and '.join(names)}: a better point may lie outside." if names else ""


def describe_points(found: FoundSweep) -> str:
    """Return a description of the points: exact or preview, number of videos, and the available exact sizes."""
    scores = found.scores
    errors = f", {len(scores.errors)} have no scores" if scores.errors else ""
    left_out = "".join(f" {problem}" for problem in found.problems)
    if scores.is_exact:
        return f"Exact: each of {len(scores.grid)} points was run, {scores.num_videos} videos{errors}.{left_out}"
    sizes = " and ".join(str(size) for size in found.exact_sizes)
    available = f" Exact points are available for {sizes} thresholds per axis." if sizes else ""
    return (
        f"Preview from the traces of {found.run}, {scores.num_videos} videos{errors}: it ignores that different "
        f"decisions change the context of the model.{available}{left_out}"
    )


def best_thresholds(best: BestPoint) -> tuple[float, float]:
    """Return the speak and the update threshold of a point."""
    return best.speak_threshold, best.update_threshold

"""Rendering of a sweep: the choices of scores, the heat map, the curves and the description of the best point."""

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.batch.runs.results import format_score
from app.batch.sweeps.folders import FoundSweep
from app.templates import render
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
        (RECOMMENDED, RECOMMENDED),  # constant, since a focused dropdown keeps the old label of its choice
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
    values, metric = np.array(scores.as_matrix(best.metric), float), find_metric(best.metric)
    loss = compute_losses(best.metric, values)
    text = partial(format_score, is_count=metric.is_count)
    return render(
        "heat_map",
        label=metric.label,
        worst=text(float(values.flat[np.nanargmax(loss)])),
        top=text(best.value),
        speak=[f"{speak:.3g}" for speak in scores.grid.speak],
        rows=[  # HTML is from the top, so the largest update threshold is first
            {
                "axis": f"{update:.3g}",
                "cells": [
                    {
                        "percent": f"{share:.1f}",
                        "title": f"{format_thresholds(speak, update)}: {text(value)}",
                        "is_best": (speak, update) == best_thresholds(best),
                    }
                    for speak, value, share in zip(scores.grid.speak, row, shares, strict=True)
                ],
            }
            for update, row, shares in reversed(
                list(zip(scores.grid.update, values.tolist(), _percentages(loss).tolist(), strict=True))
            )
        ],
    )


def _percentages(loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how good each point is, from 0 (the greatest loss) to 100; 0 if undefined or if all are equal."""
    least, most = float(np.nanmin(loss)), float(np.nanmax(loss))
    if most == least:
        return np.zeros_like(loss)
    return np.nan_to_num(100 * (most - loss) / (most - least))


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

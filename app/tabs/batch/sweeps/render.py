"""Texts of a sweep: the choices of scores, and the description of the best point."""

from pathlib import Path
from typing import Final

from stepscope.app.formatting import format_score
from stepscope.app.tabs.batch.sweeps.folders import FoundSweep, find_gain
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import NUM_FAILURES, find_metric, has_direction
from stepscope.eval.sweeps.best_point import BestPoint, explain_best
from stepscope.eval.sweeps.grid import DECISION_F1, SWEEP_METRICS, GridScores

RECOMMENDED: Final = "recommended"
"""The choice of the recommended score."""
_REASONS: Final = {
    NUM_FAILURES: "it counts all failures that N steps through in the player, and depends on both thresholds",
    DECISION_F1: "a preview has no texts and no states, and this score weighs both decisions equally",
    "dst_f1": "this sweep is older than the count of failures: run each point again to count them",
}
"""Reasons for the score of ``recommend_metric``."""


def choices(scores: GridScores | None) -> list[tuple[str, str]]:
    """Return the choices of scores: the recommended one, those of the points, and those that need exact points."""
    known = scores.metrics if scores is not None else ()
    offered = [(find_metric(name).label, name) for name in SWEEP_METRICS if has_direction(name)]
    return [
        (RECOMMENDED, RECOMMENDED),  # constant, since a focused dropdown keeps the old label of its choice
        *((label, name) for label, name in offered if name in known),
        *((f"{label} (needs exact points)", name) for label, name in offered if name not in known),
    ]


def describe_best(found: FoundSweep, best: BestPoint, *, is_recommended: bool) -> str:
    """Return the description of the best point: score, ties, how it was computed, cautions, and the reason."""
    metric = find_metric(best.metric)
    reason = f" Recommended: {_REASONS[best.metric]}." if is_recommended else ""
    tied = f" {best.ties}." if best.ties else ""
    explained = explain_best(best, find_gain(found, best))
    name = Path(found.scores.split).name
    warning = f" Caution: {found.scores.warning.replace(found.scores.split, name)}." if found.scores.warning else ""
    return (
        f"Best: {best.place}; "
        f"{metric.label} {format_score(best.value, is_count=metric.is_count)}.{tied}{explained and f' {explained}'} "
        f"{describe_points(found)}{warning}{reason}"
    )


def describe_points(found: FoundSweep) -> str:
    """Return a description of the points: exact or preview, number of videos, and the available exact sizes."""
    scores = found.scores
    errors = f", {format_count(len(scores.errors), 'has', 'have')} no scores" if scores.errors else ""
    left_out = "".join(f" {problem}" for problem in found.problems)
    videos = format_count(scores.num_videos, "video")
    if scores.is_exact:
        return f"Exact: each of {len(scores.grid)} points was run, {videos}{errors}.{left_out}"
    sizes = " and ".join(str(size) for size in found.exact_sizes)
    available = f" Exact points are available for {sizes} thresholds per axis." if sizes else ""
    return (
        f"Preview from the traces of {found.run}, {videos}{errors}: it ignores that different decisions change the "
        f"context of the model.{available}{left_out}"
    )

"""The scores of one run as tiles, each with the definition of its metric as a tooltip.

The template receives only numbers and texts of ``eval.metrics.definitions``.
"""

import math
from dataclasses import dataclass
from typing import Final

from app.templates import render
from eval.metrics.definitions import Metric, find_metric
from eval.metrics.score import VideoAnalysis, summarize
from eval.metrics.videollm_online import SCORES

HEADLINES: Final = (
    "num_failures",
    "F1",
    "missing_rate",
    "redundant_rate",
    "speaking_event_f1_1s",
    "dst_update_event_f1_1s",
    "dst_f1",
    "dst_joint_goal_accuracy",
    "dst_timeline_score",
)
"""Metrics that are always shown."""
TEACHER_FORCED: Final = tuple(f"live_{name}" for name in SCORES if name != "frame_diff")
"""Metrics of the teacher-forced pass, shown for runs that have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    label: str
    figure: str
    hint: str


def render_scores(analysis: VideoAnalysis | None) -> str:
    """Return the scores of a run as HTML; an empty string without a reference."""
    if analysis is None:
        return ""
    scores = summarize([analysis.counts])
    teacher_forced = [name for name in TEACHER_FORCED if not math.isnan(scores[name])]
    return render(
        "score_tiles", tiles=[_make_tile(find_metric(name), scores[name]) for name in (*HEADLINES, *teacher_forced)]
    )


def _make_tile(metric: Metric, value: float) -> _Tile:
    digits = 0 if metric.is_count else 2
    figure = "undefined" if math.isnan(value) else f"{value:.{digits}f}"
    return _Tile(label=metric.label, figure=figure, hint=metric.hint)

"""The scores of one run as figures with their definitions: point at one, or tab to it, to read what it means.

The markup holds numbers and texts of ``eval.metrics.definitions`` alone.
"""

import math
from html import escape
from typing import Final

from eval.metrics.definitions import Metric, find_metric
from eval.metrics.score import ScoredVideo, summarize
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
"""Scores that are shown."""
TEACHER_FORCED: Final = tuple(f"live_{name}" for name in SCORES if name != "frame_diff")
"""Scores of the teacher-forced pass, shown where there was one."""


def render_scores(scored: ScoredVideo | None) -> str:
    """Return the scores of a run as markup; nothing without a reference."""
    if scored is None:
        return ""
    scores = summarize([scored.counts])
    taught = [name for name in TEACHER_FORCED if not math.isnan(scores[name])]
    tiles = [_tile(find_metric(name), scores[name]) for name in (*HEADLINES, *taught)]
    return f'<div class="scores" role="group" aria-label="Scores of this run">{"".join(tiles)}</div>'


def _tile(metric: Metric, value: float) -> str:
    digits = 0 if metric.is_count else 2
    figure = "undefined" if math.isnan(value) else f"{value:.{digits}f}"
    about = escape(f"{metric.label}: {figure}. {metric.hint}")
    return (
        f'<div class="score" tabindex="0" role="img" aria-label="{about}" '
        f'data-hint="{escape(metric.hint)}"><b>{figure}</b><span>{escape(metric.label)}</span></div>'
    )

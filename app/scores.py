"""The scores of one run as figures with their definitions: point at one, or tab to it, to read what it means.

The markup holds numbers and texts of ``eval.registry`` alone.
"""

import math
from html import escape

from app.runs import Run
from eval.matching import Encode
from eval.metrics import score_video, summarize
from eval.registry import find_metric

HEADLINES = {
    "F1": "Response F1",
    "missing_rate": "Responses missed",
    "redundant_rate": "Redundant ones",
    "speaking_event_f1_1s": "Speaking F1 ±1 s",
    "dst_update_event_f1_1s": "Updating F1 ±1 s",
    "dst_f1": "Update F1",
    "dst_joint_goal_accuracy": "Whole state right",
    "dst_timeline_score": "Step states right",
}
"""Scores that are shown, with short names."""


def draw_scores(run: Run, encode: Encode) -> str:
    """Return the scores of a finished run as markup; nothing without a reference."""
    if run.clip.sample is None or not run.outputs:
        return ""
    counts = score_video(run.clip.sample, run.outputs, encode=encode).counts
    scores = summarize([counts])
    tiles = [_tile(label, scores[name], find_metric(name).hint) for name, label in HEADLINES.items()]
    return f'<div class="scores" role="group" aria-label="Scores of this run">{"".join(tiles)}</div>'


def _tile(label: str, value: float, hint: str) -> str:
    figure = "undefined" if math.isnan(value) else f"{value:.2f}"
    return (
        f'<div class="score" tabindex="0" role="img" aria-label="{escape(f"{label}: {figure}. {hint}")}" '
        f'data-hint="{escape(hint)}"><b>{figure}</b><span>{escape(label)}</span></div>'
    )

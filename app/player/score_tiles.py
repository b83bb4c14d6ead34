"""The scores of one run as tiles, each with the definition of its metric as a tooltip.

The template receives only numbers and texts of ``eval.metrics.definitions``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from stepscope.app.core.run import Run, analyze_run
from stepscope.app.templates import render
from stepscope.app.window.failures import LOW_SIMILARITY, find_low_texts
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.definitions import Metric, find_metric
from stepscope.eval.metrics.matched_video import LIVE_SCORES, JudgedVideo
from stepscope.eval.metrics.score import VideoAnalysis, score_counts
from stepscope.eval.protocols.rules import parse_rule
from stepscope.eval.reports.entries import list_baselines
from stepscope.eval.reports.mistakes import find_mistakes

HEADLINES: Final = (
    "num_failures",
    "F1",
    "missing_rate",
    "redundant_rate",
    "speaking_event_f1_1s",
)
"""Metrics that are always shown."""
BESIDE: Final = ("F1", "missing_rate", "redundant_rate", "speaking_event_f1_1s")
"""Metrics of an untrained run that are shown beside those of ``BASELINES``."""
BASELINES: Final = ("always silent", "always speaking")
STATES: Final = ("dst_update_event_f1_1s", "dst_f1", "dst_joint_goal_accuracy", "dst_timeline_score")
"""Metrics of updates and states, shown unless a run has none of them, as one of a model without states."""
SPANS: Final = ("PAUC_w0.5", "PAUC_silent", "span_coverage")
"""Metrics of reply spans, shown for references that have some."""
TEACHER_FORCED: Final = tuple(f"live_{name}" for name in LIVE_SCORES if name != "frame_diff")
"""Metrics of the teacher-forced pass, shown for runs that have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One score as text."""

    label: str
    figure: str
    hint: str


def render_scores(analysis: VideoAnalysis | None, sample: Sample | None, basis: str, *, rules: str = "") -> str:
    """Return the scores of a run as HTML, with their basis; an empty string without a reference ``sample``."""
    if analysis is None:
        return ""
    tiles = make_tiles(score_counts(analysis.counts), **count_beside(analysis.judged, sample), rules=rules)
    return render("score_tiles", tiles=tiles, basis=basis)


def render_baselines(run: Run, encode: Encode) -> str:
    """Return the scores of a run with a reference beside those of assistants that need no model, as HTML."""
    sample, rule = run.reference, parse_rule("egoproactive")
    assert sample is not None
    metrics = [find_metric(name) for name in BESIDE]
    made = list_baselines({})
    all_outputs = {"this run": run.outputs, **{name: made[name](sample)[: len(run.outputs)] for name in BASELINES}}
    rows = []
    for name, outputs in all_outputs.items():
        analysis = analyze_run(replace(run, outputs=tuple(outputs), live=None), encode)
        assert analysis is not None
        scores = score_counts(analysis.counts)
        counted = rule.count_outputs(sample, outputs, grade=lambda replies: [0] * len(replies))
        g_mean = rule.summarize(counted)["g_mean"]
        values = [g_mean, *(scores.get(metric.name) for metric in metrics)]
        rows.append((name, ["undefined" if value is None or math.isnan(value) else f"{value:.2f}" for value in values]))
    return render(
        "baselines",
        caption="The signals are untrained. Beside an assistant that never speaks, and one that speaks at each frame:",
        columns=[{"label": "G-mean", "hint": f"G-mean by {rule.describe()}"}, *metrics],
        rows=rows,
    )


def count_beside(judged: JudgedVideo | None, sample: Sample | None) -> dict[str, int]:
    """Return what the tile of failures names beside their number, as ``make_tiles`` takes it."""
    if judged is None or sample is None:
        return {}
    mistakes = len(find_mistakes(judged, sample))
    return {"num_mistakes": mistakes, "num_low": len(find_low_texts(judged)), "num_later": judged.num_later}


def make_tiles(
    scores: Mapping[str, float | None],
    *,
    num_mistakes: int = 0,
    num_low: int = 0,
    num_later: int = 0,
    rules: str = "",
) -> list[Tile]:
    """Return the tiles of scores by name; a score that is None or nan is undefined.

    The first one names the mistakes that the failures are, if they are counted; the texts of low similarity,
    ``num_low``: they are no failures of the scores; and the failures after the last output, ``num_later``, at which the
    player does not stop. ``rules`` are those of ``describe_rules``,
    whose decisions are not scored here.
    """
    known = {name: math.nan if value is None else value for name, value in scores.items()}
    is_known = {name: not math.isnan(value) for name, value in known.items()}
    states = STATES if any(is_known.get(name) for name in STATES) else ()
    others = [name for name in (*SPANS, *TEACHER_FORCED) if is_known.get(name)]
    names = (*HEADLINES, *states, *others)
    hints = (
        {"speaking_event_f1_1s": f" Here of the run's messages, not of its rule's decisions ({rules})."}
        if rules
        else {}
    )
    first, *rest = [_make_tile(find_metric(name), known.get(name, math.nan), hints.get(name, "")) for name in names]
    later = f", {num_later} after the last frame" if num_later else ""
    low = f", {format_count(num_low, 'text')} below similarity {LOW_SIMILARITY:.2f} (≈)" if num_low else ""
    mistakes = f", in {format_count(num_mistakes, 'mistake')}" if num_mistakes else ""
    return [replace(first, label=first.label + mistakes + later + low), *rest]


def _make_tile(metric: Metric, value: float, more: str) -> Tile:
    digits = 0 if metric.is_count else 2
    figure = "undefined" if math.isnan(value) else f"{value:.{digits}f}"
    return Tile(label=metric.label, figure=figure, hint=metric.hint + more)

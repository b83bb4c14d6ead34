"""Tables that compare two runs, A and B. Names and texts are untrusted: they are in cells of type ``str`` only."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.runs.videos import describe_text
from stepscope.app.core.results import format_interval, round_score, score_table
from stepscope.app.formatting import format_score
from stepscope.app.templates import render
from stepscope.engine.config import StreamConfig, format_thresholds, name_thresholds
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.definitions import BEST_VALUES, GROUPS, Metric, compute_loss, find_metric, has_direction
from stepscope.eval.reports.compare_runs import ComparedVideo, Comparison
from stepscope.eval.reports.statistics import SIGNIFICANCE_LEVEL, Difference
from stepscope.eval.runs.provenance import Provenance

VIDEO_HEADERS: Final = ["Video", "A", "B", "B - A", "Reference turns wrong in both", "only in A", "only in B"]
TURN_HEADERS: Final = ["Video", "Second", "Wrong in", "Who", "Reference"]
ROOT_HEADERS: Final = ["Video", "Second", "In", "Class", "Failures of its chain"]
ROOT_WORDS: Final[Mapping[str, str]] = {"only B": "new in B", "only A": "gone in B", "both": "in both"}
WRONG_IN: Final = ["only A", "only B", "both", "neither"]
DIFFERING: Final = "Scores that differ, corrected p < .05"


def draw_differences(
    differences: Mapping[str, Difference],
    times_problem: str = "",
    *,
    notes: tuple[str, str] = ("", ""),
    is_folded: bool = False,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Return the scores of both runs as an HTML table; significant differences are bold, with the better run.

    If ``is_folded``, those come first, and the others are folded by their group. With ``times_problem``, the reason
    why times are not comparable, times have no difference. ``notes`` are in the headings of the runs, and ``labels``
    replace the names of scores.
    """
    metrics = {name: find_metric(name) for name in differences}
    metrics |= {name: replace(metrics[name], label=label) for name, label in (labels or {}).items() if name in metrics}
    rows = {name: _difference_row(metrics[name], found) for name, found in differences.items()}
    if not rows:
        return ""
    groups: dict[str, list[Mapping[str, Any]]] = {"": list(rows.values())}
    if is_folded:
        groups = {DIFFERING: [row for row in rows.values() if row["is_significant"]]}
        for group in GROUPS:
            equal = [rows[metric.name] for metric in group.metrics if metric.name in rows]
            groups[f"{group.name}, no clear difference"] = [row for row in equal if not row["is_significant"]]
        groups = {name: found for name, found in groups.items() if found}
    sides = dict(zip(("A", "B"), notes, strict=True))
    return render("differences", sides=sides, groups=groups, times_problem=times_problem)


def _difference_row(metric: Metric, found: Difference) -> Mapping[str, Any]:
    is_zero = metric.is_shown_zero(found.difference)
    is_compared = not math.isnan(found.difference)
    return {
        "metric": metric,
        "a": format_score(found.a, is_count=metric.is_count),
        "b": format_score(found.b, is_count=metric.is_count),
        "change": _format_change(found.difference, is_count=metric.is_count) if is_compared else "not compared",
        "interval": format_interval([found.interval.low, found.interval.high], is_count=metric.is_count),
        "p_value": "" if math.isnan(found.p_value) else f"{found.p_value:.3f}",
        "corrected": "" if math.isnan(found.corrected_p) else f"{found.corrected_p:.3f}",
        "is_significant": found.corrected_p < SIGNIFICANCE_LEVEL and not is_zero,
        "better": "" if is_zero else _direction_words(metric.name, found),
    }


def _format_change(change: float, *, is_count: bool) -> str:
    words = format_score(change, is_count=is_count)
    return f"+{words}" if float(words.replace(",", "")) > 0 else words


def _direction_words(name: str, found: Difference) -> str:
    """Return which run is better; empty unless a test of what makes a value better separates the two."""
    if not has_direction(name) or not found.corrected_better_p < SIGNIFICANCE_LEVEL:
        return ""
    loss_a, loss_b = compute_loss(name, found.a), compute_loss(name, found.b)
    words = "" if loss_a == loss_b else "B is better" if loss_b < loss_a else "B is worse"
    if not words or name not in BEST_VALUES:
        return words
    nearer = "nearer to" if loss_b < loss_a else "farther from"
    return f"{words}: {nearer} {BEST_VALUES[name]:g}, p {found.corrected_better_p:.3f}"


def compared_videos(
    videos: Sequence[ComparedVideo], name: str, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a table with one row per video: a score of both runs, its change, and the number of wrong turns.

    Videos whose score changed are first, sorted by the loss of B against A, largest first; then videos with turns that
    are wrong in one run only, then unchanged ones, then undefined scores. ``names`` are short names of the videos, by
    id.
    """
    metric = find_metric(name)
    label = metric.label
    rows = [
        [
            (names or {}).get(video.video_id, video.video_id),
            *(round_score(value, is_count=metric.is_count) for value in _values(video, name)),
            *(video.count(wrong_in) for wrong_in in ("both", "only A", "only B")),
        ]
        for video in sorted(videos, key=lambda video: _rank(video, name))
    ]
    return score_table(["Video", f"{label}, A", f"{label}, B", *VIDEO_HEADERS[3:]], rows)


def _values(video: ComparedVideo, name: str) -> tuple[float, float, float]:
    a, b = (of_run[name] for of_run in video.scores)
    return a, b, b - a


def _rank(video: ComparedVideo, name: str) -> tuple[int, float]:
    a, b, change = _values(video, name)
    if math.isnan(change):
        return 3, 0.0
    if change:
        return 0, compute_loss(name, a) - compute_loss(name, b)
    return (1 if video.count("only A") or video.count("only B") else 2), 0.0


def compared_turns(
    videos: Sequence[ComparedVideo], samples: Mapping[str, Sample], wrong_in: str, names: Mapping[str, str]
) -> list[list[str | float]]:
    """Return one row per reference turn that is wrong in ``wrong_in``, one of ``WRONG_IN``."""
    rows: list[list[str | float]] = []
    for video in videos:
        for compared in video.turns:
            if compared.wrong_in == wrong_in:
                sample = samples[video.video_id]
                turn = sample.turns[compared.reference]
                name = names.get(video.video_id, video.video_id)
                rows.append([name, turn.time_s, compared.wrong_in, turn.role, describe_text(turn.text, sample.steps)])
    return rows


def compared_roots(found: Comparison | None, names: Mapping[str, str]) -> Any:
    """Return the table of the first mistakes of both runs under a sentence that counts them; hidden without any."""
    rows = [
        [
            names.get(root.video_id, root.video_id),
            root.time_s,
            ROOT_WORDS[root.wrong_in],
            " → ".join(dict.fromkeys(filter(None, root.causes))),
            " → ".join(str(number) for number in root.num_failures if number),
        ]
        for root in (found.roots if found else None) or ()
    ]
    label = f"{found.describe_roots()}. Click a row to open both runs there" if found else ""
    return gr.Dataframe(value=rows, label=label, visible=bool(rows))


def describe_sides(a: Provenance, b: Provenance) -> str:
    """Return the thresholds of both runs, then the model, device and settings that differ.

    Example: ``A has speak 0.5, update 0.5; B has speak 0.9, update 0.5. Different: lookahead (A 1, B 8).``
    """
    thresholds = f"A has {thresholds_of(a)}; B has {thresholds_of(b)}."
    different = [f"{name} (A {in_a}, B {in_b})" for name, in_a, in_b in _list_origins(a, b) if in_a != in_b]
    return f"{thresholds} Different: {', '.join(different)}." if different else thresholds


def thresholds_of(run: Provenance) -> str:
    """Return the thresholds of a run, such as ``speak 0.5, update 0.5`` or ``theta 0.725``, or its rules."""
    speak, update = run.threshold("speak"), run.threshold("update")
    if speak is not None and update is not None:
        return format_thresholds(speak, update, run.policy)
    if run.rules:
        return run.rules
    known = dict(name_thresholds(speak, update))
    return ", ".join(f"{head} {known.get(head, 'unknown')}" for head in ("speak", "update"))


def _list_origins(a: Provenance, b: Provenance) -> Iterator[tuple[str, str, str]]:
    yield "model", a.model_digest[:12] or "unknown", b.model_digest[:12] or "unknown"
    yield "heads", a.heads_digest[:12] or "of the model", b.heads_digest[:12] or "of the model"
    yield "asked in the run", a.asked_in_run or "nothing", b.asked_in_run or "nothing"
    yield "device", a.device or "unknown", b.device or "unknown"
    yield "hardware decoding", a.hardware_decoding or "off", b.hardware_decoding or "off"
    if a.config and b.config:  # an imported run has none
        of_a, of_b = ({**asdict(StreamConfig()), **run.config} for run in (a, b))
        for name in sorted({*of_a, *of_b}):
            if not name.endswith("_threshold"):
                yield name.replace("_", " "), str(of_a.get(name)), str(of_b.get(name))

"""Tables that compare two runs, A and B. Names and texts are untrusted: they are in cells of type ``str`` only."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np

from app.batch.context import BatchContext
from app.batch.results import format_interval, format_score, round_score
from app.formatting import as_sentence
from app.player.context import AppContext
from eval.data.samples import Sample
from eval.metrics.definitions import METRICS, Metric, find_metric
from eval.reports.compare_runs import FAILURE_SCORES, FEW_VIDEOS, ComparedVideo
from eval.reports.statistics import Difference
from eval.sweeps.grid import compute_losses, has_direction

VIDEO_HEADERS: Final = ["Video", "A", "B", "B - A", "Turns wrong in both", "only in A", "only in B"]
TURN_HEADERS: Final = ["Video", "Second", "Wrong in", "Who", "Reference"]
WRONG_IN: Final = ["only A", "only B", "both", "neither"]
SIGNIFICANCE_LEVEL: Final = 0.05
_NOT_COMPARED: Final = ("Bleu", "CIDEr", "METEOR", "live_")
"""Prefixes of scores without a value per video: text scores of the corpus, and scores that outputs do not have."""


def draw_differences(differences: Mapping[str, Difference], times_problem: str = "") -> str:
    """Return the scores of both runs as an HTML table; significant differences are bold, with the better run.

    With ``times_problem``, the reason why times are not comparable, times have no difference.
    """
    heads = "".join(
        f"<th scope='col'>{word}</th>" for word in ("", "A", "B", "B - A", "95 % interval of B - A", "p", "")
    )
    rows = [_difference_row(find_metric(name), found) for name, found in differences.items()]
    if not rows:
        return ""
    reason = f'<p class="dim">Times are not compared: {escape(times_problem)}.</p>' if times_problem else ""
    return f'{reason}<table class="corpus"><tr>{heads}</tr>{"".join(rows)}</table>'


def _difference_row(metric: Metric, found: Difference) -> str:
    is_significant = found.p_value < SIGNIFICANCE_LEVEL
    tag = "b" if is_significant else "span"
    change = (
        "not compared" if math.isnan(found.difference) else _format_change(found.difference, is_count=metric.is_count)
    )
    interval = format_interval([found.interval.low, found.interval.high], is_count=metric.is_count)
    p_value = "" if math.isnan(found.p_value) else f"{found.p_value:.3f}"
    return (
        f'<tr tabindex="0" data-hint="{escape(metric.hint)}"><td>{escape(metric.label)}</td>'
        f"<td>{format_score(found.a, is_count=metric.is_count)}</td>"
        f"<td>{format_score(found.b, is_count=metric.is_count)}</td>"
        f"<td><{tag}>{change}</{tag}></td><td>{interval}</td><td>{p_value}</td>"
        f"<td>{_direction_words(metric.name, found) if is_significant else ''}</td></tr>"
    )


def _format_change(change: float, *, is_count: bool) -> str:
    """Return a change with its sign; without a sign if it rounds to zero."""
    words = format_score(change, is_count=is_count)
    return f"+{words}" if float(words.replace(",", "")) > 0 else words


def _direction_words(name: str, found: Difference) -> str:
    if not has_direction(name):
        return ""
    loss_a, loss_b = compute_losses(name, np.array([found.a, found.b]))
    return "" if loss_a == loss_b else "B is better" if loss_b < loss_a else "B is worse"


def metric_choices() -> list[tuple[str, str]]:
    """Return the scores by which videos can be compared, as pairs of label and name."""
    return [
        (metric.label, metric.name)
        for metric in METRICS
        if metric.scope != "split" and has_direction(metric.name) and not metric.name.startswith(_NOT_COMPARED)
    ]


def compared_videos(
    videos: Sequence[ComparedVideo], name: str, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return a table with one row per video: a score of both runs, its change, and the number of wrong turns.

    Rows are sorted by the loss of B against A, largest first; undefined scores are last. ``names`` are short names of
    the videos, by id.
    """
    label = find_metric(name).label
    rows = []
    for video in videos:
        a, b = (of_run[name] for of_run in video.scores)
        loss_a, loss_b = compute_losses(name, np.array([a, b]))
        cells = [round_score(value) for value in (a, b, b - a)]
        wrong = [video.count(wrong_in) for wrong_in in ("both", "only A", "only B")]
        rows.append(
            (
                math.inf if math.isnan(loss_b - loss_a) else loss_a - loss_b,
                [(names or {}).get(video.video_id, video.video_id), *cells, *wrong],
            )
        )
    rows.sort(key=lambda row: row[0])
    headers = ["Video", f"{label}, A", f"{label}, B", *VIDEO_HEADERS[3:]]
    return {"headers": headers, "data": [cells for _, cells in rows]}


def compared_turns(
    videos: Sequence[ComparedVideo], samples: Mapping[str, Sample], wrong_in: str, names: Mapping[str, str]
) -> list[list[str | float]]:
    """Return one row per reference turn that is wrong in ``wrong_in``, one of ``WRONG_IN``."""
    rows: list[list[str | float]] = []
    for video in videos:
        for compared in video.turns:
            if compared.wrong_in == wrong_in:
                turn = samples[video.video_id].turns[compared.reference]
                name = names.get(video.video_id, video.video_id)
                rows.append([name, turn.time_s, compared.wrong_in, turn.role, turn.text])
    return rows


class ComparedRuns(NamedTuple):
    """The compared runs; the window may show a different run by now."""

    a: str
    b: str
    videos: Sequence[ComparedVideo]


class CompareView(NamedTuple):
    """The outputs of the comparison."""

    compared: Any
    said: Any
    failures: Any
    scores: Any
    videos: Any
    turns: Any


def compare(
    context: AppContext, batches: BatchContext, name: str | None, other: str | None, wrong_in: str, metric: str
) -> CompareView:
    """Compare the shown run ``name`` (A) with the run ``other`` (B)."""
    try:
        if not name or not other or name == other:
            raise ValueError("choose two runs: A above, B here")
        found = batches.compare(name, other, encode=context.encode)
    except (ValueError, OSError) as error:
        said, videos = as_sentence(error), compared_videos([], metric)
        return CompareView(compared=None, said=said, failures="", scores="", videos=videos, turns=[])
    unfinished = f" {len(found.left_out)} videos are omitted: not finished in both." if found.left_out else ""
    note = _scoring_note(batches, name, other)
    said = f"A is {name}, B is {other}; {len(found.videos)} videos.{unfinished}{note} Click a row to open both runs."
    if len(found.videos) < FEW_VIDEOS:
        said += f" With fewer than {FEW_VIDEOS} videos the intervals are too narrow; p (permutation test) is valid."
    compared = ComparedRuns(name, other, found.videos)
    return CompareView(
        compared=compared,
        said=said,
        failures=draw_differences({name: found.differences[name] for name in FAILURE_SCORES}),
        scores=draw_differences(
            {name: score for name, score in found.differences.items() if name not in FAILURE_SCORES},
            found.times_problem,
        ),
        videos=compared_videos(found.videos, metric, batches.video_names(name)),
        turns=choose_turns(batches, compared, wrong_in),
    )


def _scoring_note(batches: BatchContext, name: str, other: str) -> str:
    """Return a note if B was scored with settings that differ from those of A, which are used for both."""
    a, b = (batches.scoring_of(batches.settings_of(run)) for run in (name, other))
    if a == b:
        return ""
    settings = f"dataset {a.dataset or 'none'}, zero_cost {a.zero_cost}"
    return f" {other} was scored with different settings; here both are scored with {settings}, as {name} was."


def choose_turns(batches: BatchContext, compared: ComparedRuns | None, wrong_in: str) -> list[list[str | float]]:
    """Return the rows of the turns of compared runs that are wrong in ``wrong_in``."""
    split = None if compared is None else batches.split_of(batches.settings_of(compared.a))
    if compared is None or split is None:
        return []
    samples = {sample.video_id: sample for sample in split.samples}
    return compared_turns(compared.videos, samples, wrong_in, batches.video_names(compared.a))


def sort_videos(batches: BatchContext, compared: ComparedRuns | None, metric: str) -> dict[str, Any]:
    """Return the table of the videos of compared runs by the score ``metric``."""
    if compared is None:
        return compared_videos((), metric)
    return compared_videos(compared.videos, metric, batches.video_names(compared.a))


def list_other_runs(batches: BatchContext, name: str | None, other: str | None) -> Any:
    """Return the dropdown of the runs with which the shown run can be compared."""
    names = [run for run in batches.run_names() if run != name]
    return gr.Dropdown(choices=names, value=other if other in names else None)

"""Handlers of the Thresholds tab: a heat map over both thresholds, and a curve along each through the best point."""

import math
from collections.abc import Generator
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np
import pandas as pd

from app.batch.context import BatchContext
from app.batch.results import format_score
from app.batch.sweeps.folders import FoundSweep, find_exact_sizes, find_sweep, plan_sweep
from app.formatting import clock, sentence
from app.player.context import Bench
from app.player.session.live_run import Stoppable
from engine.config import threshold_text
from engine.errors import EngineError
from eval.metrics.definitions import NUM_FAILURES, find_metric
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.grid import DECISIONS, SWEPT, BestPoint, GridScores, find_best, has_direction, losses

RECOMMENDED: Final = "recommended"
"""The choice of the recommended score."""
_CANCELLED: Final = '<p class="dim">Cancelled. Finished videos are kept; “Run each point” continues the sweep.</p>'
_REASONS: Final = {
    NUM_FAILURES: "it counts all failures that N steps through in the player, and depends on both thresholds",
    DECISIONS: "a preview has no texts and no states, and this score weighs both heads equally",
    "dst_f1": "this sweep is older than the count of failures: run each point again to count them",
}
"""Reasons for the recommended score; the first score that a sweep has is recommended."""


def choices(scores: GridScores | None) -> list[tuple[str, str]]:
    """Return the choices of scores: the recommended one, those of the points, and those that need exact points."""
    known = scores.metrics if scores is not None else ()
    offered = [(find_metric(name).label, name) for name in SWEPT if has_direction(name)]
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
    rows, metric = scores.surface(best.metric), find_metric(best.metric)
    loss = losses(best.metric, np.array(rows, float))
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
                f'title="{_point(speak, update)}: {format_score(value, is_count=metric.is_count)}"></span>'
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


def describe(found: FoundSweep, best: BestPoint, *, is_recommended: bool) -> str:
    """Return the description of the best point: score, ties, how it was computed, cautions, and the reason."""
    metric = find_metric(best.metric)
    reason = f" Recommended: {_REASONS[best.metric]}." if is_recommended else ""
    tied = "" if best.num_tied == 1 else f" {best.num_tied} points tie; {_plateau(best)}."
    name = Path(found.scores.split).name
    caution = f" Caution: {found.scores.caution.replace(found.scores.split, name)}." if found.scores.caution else ""
    return (
        f"Best: {_point(*_best_point(best))}; "
        f"{metric.label} {format_score(best.value, is_count=metric.is_count)}.{tied}{_edge(found.scores, best)} "
        f"{_kind(found)}{caution}{reason}"
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


def _kind(found: FoundSweep) -> str:
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


class SweepView(NamedTuple):
    """The outputs of the sweep; ``best`` is the point that the button ``apply`` uses."""

    said: Any
    heat: Any
    curves: Any
    best: Any
    apply: Any
    metric: Any
    csv: Any
    json: Any


class SweepButtons(NamedTuple):
    """The buttons that start and cancel an exact sweep, and its progress."""

    exact: Any
    cancel: Any
    progress: Any


class AppliedPoint(NamedTuple):
    """The outputs of ``apply_best``: the sliders of the form and of the player, and the description."""

    speak: Any
    update: Any
    player_speak: Any
    player_update: Any
    said: Any


NO_SWEEP = SweepView(
    said="",
    heat="",
    curves=pd.DataFrame(columns=["threshold", "score", "head"]),
    best=None,
    apply=gr.Button("Use the best point", interactive=False),
    metric=gr.Dropdown(choices=choices(None)),
    csv=gr.DownloadButton(interactive=False),
    json=gr.DownloadButton(interactive=False),
)


def enter_sweep(batches: BatchContext, name: str | None, metric: str, size: int) -> tuple[Any, ...]:
    """Show the sweep of a newly chosen run, at a grid size with exact points if there is one.

    Returns ``SweepView`` and the size.
    """
    sizes = find_exact_sizes(batches, name)
    chosen = size if size in sizes or not sizes else sizes[-1]
    return (*show_sweep(batches, name, metric, chosen), chosen)


def show_sweep(batches: BatchContext, name: str | None, metric: str, size: int) -> SweepView:
    """Show the points of a grid: exact if they were run, else a preview from the traces of the run."""
    try:
        found = find_sweep(batches, name, size)
        view = NO_SWEEP._replace(
            metric=gr.Dropdown(choices=choices(found.scores)),
            csv=gr.DownloadButton(interactive=True),
            json=gr.DownloadButton(interactive=True),
        )
    except (EngineError, ValueError, OSError) as error:
        job = batches.jobs.find(name) if name is not None else None
        if job is not None and not job.is_over:
            return NO_SWEEP._replace(said=f"{name} is still running; its points are shown when it has finished.")
        return NO_SWEEP._replace(said=sentence(error))
    chosen = recommend(found.scores) if metric == RECOMMENDED else metric
    if chosen not in found.scores.metrics:
        needs = f"{find_metric(chosen).label} needs exact points: press Run each point, or choose another score."
        return view._replace(said=f"{_kind(found)} {needs}")
    try:
        best = find_best(found.scores, chosen)
    except ValueError as error:
        return view._replace(said=f"{_kind(found)} {sentence(error)}")
    return view._replace(
        said=describe(found, best, is_recommended=metric == RECOMMENDED),
        heat=draw_heat_map(found.scores, best),
        curves=curves(found.scores, best),
        best=best,
        apply=gr.Button(f"Use {' and '.join(map(threshold_text, _best_point(best)))}", interactive=True),
    )


def begin_sweep() -> tuple[Stoppable, *tuple[Any, ...]]:
    """Return a new handle of a sweep and ``SweepButtons``; the sweep may wait for that of another window."""
    return Stoppable(), *_running('<p class="dim">Waiting: sweeps are run one at a time.</p>')


def run_points(
    bench: Bench, batches: BatchContext, live: Stoppable | None, name: str | None, size: int, devices: str
) -> Generator[SweepButtons, None, None]:
    """Run the split of a run at every point of a grid, and yield the progress; finished videos are kept.

    A cancelled sweep yields only that it was cancelled.
    """
    live = live or Stoppable()  # an API client may call this without begin_sweep
    live.is_started = True
    try:
        planned = plan_sweep(batches, name, size, devices)
        events = run_sweep(
            planned.split,
            planned.work,
            planned.grid,
            out=planned.folder,
            scoring=planned.scoring,
            encode=bench.encode,
            device=planned.device,
            resume=True,
        )
        with closing(events):
            for progress in events:
                if not live.is_wanted:
                    break
                yield _running(draw_sweep_progress(progress))
        yield _ended("" if live.is_wanted else _CANCELLED)
    except (EngineError, ValueError, OSError) as error:
        yield _ended(f'<p class="problem">⚠ {escape(sentence(error))}</p>')
    finally:
        live.ended.set()


def halt_sweep(live: Stoppable | None) -> SweepButtons:
    """Request the end of a sweep after the current video, and show that."""
    if live is not None:
        live.is_wanted = False
    status = '<p class="dim">Cancelling: the sweep ends after the current video.</p>'
    return _running(status)._replace(cancel=gr.Button(interactive=False))


def cancel_sweep(live: Stoppable | None) -> SweepButtons:
    """Wait for the end of a halted sweep, unless it has not started; show that it was cancelled."""
    if live is not None:
        live.stop()
    return _ended(_CANCELLED)


def draw_sweep_progress(progress: SweepProgress) -> str:
    """Return a progress bar of the finished runs, with a line of text, as HTML."""
    rest = "" if progress.remaining_s is None else f", {clock(progress.remaining_s)} left"
    words = (
        f"{progress.num_done} of {progress.num_runs} runs, {progress.num_finished} of {progress.num_videos} videos, "
        f"{progress.passes:,} model passes{rest}. The sweep ends if this window is closed; finished videos are kept."
    )
    failed = f" {progress.video_id} failed: {sentence(progress.error)}" if progress.error else ""
    return (
        f'<progress value="{progress.num_done}" max="{max(1, progress.num_runs)}" aria-label="runs done"></progress>'
        f'<p class="dim">{escape(words + failed)}</p>'
    )


def _running(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=False), cancel=gr.Button(interactive=True), progress=progress)


def _ended(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=True), cancel=gr.Button(interactive=False), progress=progress)


def _best_point(best: BestPoint) -> tuple[float, float]:
    return best.speak_threshold, best.update_threshold


def _point(speak: float, update: float) -> str:
    return f"speak {threshold_text(speak)}, update {threshold_text(update)}"


def apply_best(best: BestPoint | None, said: str) -> AppliedPoint:
    """Set the thresholds of both tabs to the best point, and add that to the description ``said``."""
    if best is None:
        return AppliedPoint(*(gr.skip() for _ in AppliedPoint._fields))
    speak, update = _best_point(best)
    used = f"In use: the next run here and the player have {_point(speak, update)}."
    return AppliedPoint(
        speak=speak,
        update=update,
        player_speak=speak,
        player_update=update,
        said=f"{said.removesuffix(used).rstrip()} {used}",
    )

"""A sweep as the page shows it: a heat map over both thresholds, and a curve for each through the best point."""

import math
from collections.abc import Generator
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np
import pandas as pd

from app.batch.context import Batches
from app.batch.results import figure
from app.batch.sweeps.folders import FoundSweep, find_exact_sizes, find_sweep, plan_sweep
from app.formatting import clock, sentence
from app.player.context import Bench
from app.player.session.live_run import Stoppable
from engine.config import format_threshold
from engine.errors import EngineError
from eval.metrics.definitions import NUM_FAILURES, find_metric
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.grid import DECISIONS, SWEPT, BestPoint, GridScores, find_best, has_direction, losses

RECOMMENDED: Final = "recommended"
"""The choice of the score that is recommended for what there is."""
_CANCELLED: Final = '<p class="dim">Cancelled. Finished videos are kept: Run each point goes on with the others.</p>'
_REASONS: Final = {
    NUM_FAILURES: "all that N steps through in the player, and both thresholds move it",
    DECISIONS: "a preview knows no texts and no states, and both heads count alike",
    "dst_f1": "this sweep is older than the count of failures: run each point again to count them",
}
"""Why a score is recommended; the first that a sweep has is."""


def choices(scores: GridScores | None) -> list[tuple[str, str]]:
    """Return what can be chosen by: the recommended score, those of these points, and those of exact points alone."""
    known = scores.metrics if scores is not None else ()
    offered = [(find_metric(name).label, name) for name in SWEPT if has_direction(name)]
    return [
        (f"recommended: {find_metric(recommend(scores)).label}", RECOMMENDED),
        *((label, name) for label, name in offered if name in known),
        *((f"{label} (needs each point run)", name) for label, name in offered if name not in known),
    ]


def recommend(scores: GridScores | None) -> str:
    """Return the score that is recommended for points of this kind."""
    known = scores.metrics if scores is not None else (NUM_FAILURES,)
    return next(name for name in _REASONS if name in known)


def draw_heat_map(scores: GridScores, best: BestPoint) -> str:
    """Draw one score over the grid: update threshold upwards, speak threshold to the right, the best point outlined."""
    rows, metric = scores.surface(best.metric), find_metric(best.metric)
    loss = losses(best.metric, np.array(rows, float))
    least, most = float(np.nanmin(loss)), float(np.nanmax(loss))
    cells = []
    for place in reversed(range(len(rows))):
        update = scores.grid.update[place]
        cells.append(f'<span class="axis">{update:.3g}</span>')
        for column, (speak, value) in enumerate(zip(scores.grid.speak, rows[place], strict=True)):
            fault = loss[place, column]
            share = 0.0 if math.isnan(fault) or most == least else (most - fault) / (most - least)
            is_best = (speak, update) == (best.speak_threshold, best.update_threshold)
            cells.append(
                f'<span class="cell{" best" if is_best else ""}" style="--share: {100 * share:.1f}%" '
                f'title="{_point(speak, update)}: {figure(value, is_count=metric.is_count)}"></span>'
            )
    cells.append("<span></span>")
    cells += [f'<span class="axis">{speak:.3g}</span>' for speak in scores.grid.speak]
    worst = figure(float(np.array(rows, float).flat[np.nanargmax(loss)]), is_count=metric.is_count)
    top = figure(best.value, is_count=metric.is_count)
    label = f"{escape(metric.label)} from {worst} to {top} over speak and update threshold"
    return (
        f'<div class="heat" role="img" aria-label="{label}" style="--columns: {len(scores.grid.speak)}">'
        f'{"".join(cells)}</div><p class="dim">{escape(metric.label)}: faint is worst, {worst}; full is best, {top}; '
        "the best point is outlined. To the right: speak threshold; upwards: update threshold.</p>"
    )


def curves(scores: GridScores, best: BestPoint) -> pd.DataFrame:
    """Return columns ``threshold``, ``score``, ``head``: along each axis through the best point."""
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
    """Say which point is best, why by this score, how it was found, and what to beware of."""
    metric = find_metric(best.metric)
    why = f" Recommended: {_REASONS[best.metric]}." if is_recommended else ""
    tied = "" if best.num_tied == 1 else f" {best.num_tied} points tie; {_plateau(best)}."
    name = Path(found.scores.split).name
    caution = f" Beware: {found.scores.caution.replace(found.scores.split, name)}." if found.scores.caution else ""
    return (
        f"Best: {_point(*_best_point(best))}; "
        f"{metric.label} {figure(best.value, is_count=metric.is_count)}.{tied}{_edge(found.scores, best)} "
        f"{_kind(found)}{caution}{why}"
    )


def _plateau(best: BestPoint) -> str:
    if best.num_plateau == 1:
        return "none lies beside another"
    many = "them" if best.num_plateau == best.num_tied else f"the {best.num_plateau} that lie side by side"
    return f"this one is in the middle of {many}"


def _edge(scores: GridScores, best: BestPoint) -> str:
    """Say that a better point may lie beyond the grid."""
    sides = ((scores.grid.speak, best.speak_threshold, "speak"), (scores.grid.update, best.update_threshold, "update"))
    names = [name for side, value, name in sides if value in (side[0], side[-1])]
    return f" At the edge of the grid of {' and '.join(names)}: a better point may lie beyond." if names else ""


def _kind(found: FoundSweep) -> str:
    """Say of which kind the points are, and which others there are."""
    scores = found.scores
    errors = f", {len(scores.errors)} have no scores" if scores.errors else ""
    left_out = "".join(f" {problem}" for problem in found.problems)
    if scores.is_exact:
        return f"Exact: each of {len(scores.grid)} points was run, {scores.num_videos} videos{errors}.{left_out}"
    others = " and ".join(str(size) for size in found.exact_sizes)
    there = f" Exact points are there for {others} thresholds an axis." if others else ""
    return (
        f"Preview from the traces of {found.run}, {scores.num_videos} videos{errors}: with another decision the model "
        f"would have read another context.{there}{left_out}"
    )


class SweepView(NamedTuple):
    """The outputs of the sweep; ``best`` is what the button applies."""

    said: Any
    heat: Any
    curves: Any
    best: Any
    apply: Any
    metric: Any
    csv: Any
    json: Any


class SweepButtons(NamedTuple):
    """What runs a sweep and ends it, and how far it is."""

    exact: Any
    cancel: Any
    progress: Any


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


def enter_sweep(batches: Batches, name: str | None, metric: str, size: int) -> tuple[Any, ...]:
    """Show the sweep of a run that was just chosen, and the size of grid: one whose points were run, if there is one.

    Returns ``SweepView`` and the size.
    """
    sizes = find_exact_sizes(batches, name)
    chosen = size if size in sizes or not sizes else sizes[-1]
    return (*show_sweep(batches, name, metric, chosen), chosen)


def show_sweep(batches: Batches, name: str | None, metric: str, size: int) -> SweepView:
    """Show the points of a grid: exact where they were run, else a preview from the traces of the run."""
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
            return NO_SWEEP._replace(said=f"{name} is under way; its points are shown when it has ended.")
        return NO_SWEEP._replace(said=sentence(error))
    chosen = recommend(found.scores) if metric == RECOMMENDED else metric
    if chosen not in found.scores.metrics:
        needs = f"{find_metric(chosen).label} needs each point run: press Run each point, or choose another score."
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
        apply=gr.Button(f"Use {' and '.join(map(format_threshold, _best_point(best)))}", interactive=True),
    )


def begin_sweep() -> tuple[Stoppable, *tuple[Any, ...]]:
    """Make the page ready for a sweep that may have to wait for another window's: it, ``SweepButtons``."""
    return Stoppable(), *_running('<p class="dim">Waiting: one sweep is run at a time.</p>')


def run_points(
    bench: Bench, batches: Batches, live: Stoppable | None, name: str | None, size: int, devices: str
) -> Generator[SweepButtons, None, None]:
    """Run the split of a run at every point of a grid, and say how far it is; what is finished is kept.

    Once it is not wanted any more, it says that it was cancelled and nothing else.
    """
    live = live or Stoppable()  # a program may leave the click out
    live.is_started = True
    try:
        planned = plan_sweep(batches, name, size, devices)
        moments = run_sweep(
            planned.split,
            planned.work,
            planned.grid,
            out=planned.folder,
            scoring=planned.scoring,
            encode=bench.encode,
            device=planned.device,
            resume=True,
        )
        with closing(moments):
            for moment in moments:
                if not live.is_wanted:
                    break
                yield _running(draw_sweep_progress(moment))
        yield _ended("" if live.is_wanted else _CANCELLED)
    except (EngineError, ValueError, OSError) as error:
        yield _ended(f'<p class="problem">⚠ {escape(sentence(error))}</p>')
    finally:
        live.ended.set()


def halt_sweep(live: Stoppable | None) -> SweepButtons:
    """Ask a sweep to end after the video that is under way, and say so."""
    if live is not None:
        live.is_wanted = False
    said = '<p class="dim">Cancelling: it ends after the video that is under way.</p>'
    return _running(said)._replace(cancel=gr.Button(interactive=False))


def cancel_sweep(live: Stoppable | None) -> SweepButtons:
    """Wait until a sweep that was halted has ended, unless it still waits for its turn; say that it was cancelled."""
    if live is not None:
        live.stop()
    return _ended(_CANCELLED)


def draw_sweep_progress(moment: SweepProgress) -> str:
    """Draw a bar of the runs that are done, with a line of words."""
    rest = "" if moment.remaining_s is None else f", {clock(moment.remaining_s)} left"
    words = (
        f"{moment.num_done} of {moment.num_runs} runs, {moment.num_finished} of {moment.num_videos} videos, "
        f"{moment.passes:,} model passes{rest}. It ends when this window is closed; finished videos are kept."
    )
    failed = f" {moment.video_id} failed: {sentence(moment.error)}" if moment.error else ""
    return (
        f'<progress value="{moment.num_done}" max="{max(1, moment.num_runs)}" aria-label="runs done"></progress>'
        f'<p class="dim">{escape(words + failed)}</p>'
    )


def _running(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=False), cancel=gr.Button(interactive=True), progress=progress)


def _ended(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=True), cancel=gr.Button(interactive=False), progress=progress)


def _best_point(best: BestPoint) -> tuple[float, float]:
    return best.speak_threshold, best.update_threshold


def _point(speak: float, update: float) -> str:
    return f"speak {format_threshold(speak)}, update {format_threshold(update)}"


def apply_best(best: BestPoint | None, said: str) -> tuple[Any, Any, Any, Any, Any]:
    """Set the thresholds of both tabs to the best point, and say so; the player then runs again what it shows."""
    if best is None:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip(), gr.skip()
    point = _best_point(best)
    used = f"In use: the next run here and the player have {_point(*point)}."
    return *point, *point, f"{said.removesuffix(used).rstrip()} {used}"

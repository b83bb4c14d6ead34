"""Handlers of the Thresholds tab: show a sweep, run and cancel an exact one, and apply the best point."""

from collections.abc import Generator
from contextlib import closing
from html import escape
from typing import Any, Final, NamedTuple

import gradio as gr
import pandas as pd

from app.batch.context import BatchContext
from app.batch.sweeps.folders import find_exact_sizes, find_sweep, plan_sweep
from app.batch.sweeps.render import (
    RECOMMENDED,
    best_thresholds,
    choices,
    curves,
    describe_best,
    describe_points,
    draw_heat_map,
    recommend,
)
from app.formatting import as_sentence, format_clock
from app.player.context import AppContext
from app.player.session.live_run import Cancellable
from engine.config import format_threshold, format_thresholds
from engine.errors import EngineError
from eval.metrics.definitions import find_metric
from eval.sweeps.exact import SweepProgress, run_sweep
from eval.sweeps.grid import BestPoint, find_best

_CANCELLED: Final = '<p class="dim">Cancelled. Finished videos are kept; “Run each point” continues the sweep.</p>'


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
        return NO_SWEEP._replace(said=as_sentence(error))
    chosen = recommend(found.scores) if metric == RECOMMENDED else metric
    if chosen not in found.scores.metrics:
        needs = f"{find_metric(chosen).label} needs exact points: press Run each point, or choose another score."
        return view._replace(said=f"{describe_points(found)} {needs}")
    try:
        best = find_best(found.scores, chosen)
    except ValueError as error:
        return view._replace(said=f"{describe_points(found)} {as_sentence(error)}")
    return view._replace(
        said=describe_best(found, best, is_recommended=metric == RECOMMENDED),
        heat=draw_heat_map(found.scores, best),
        curves=curves(found.scores, best),
        best=best,
        apply=gr.Button(f"Use {' and '.join(map(format_threshold, best_thresholds(best)))}", interactive=True),
    )


def begin_sweep() -> tuple[Cancellable, *tuple[Any, ...]]:
    """Return a new handle of a sweep and ``SweepButtons``; the sweep may wait for that of another window."""
    return Cancellable(), *_running('<p class="dim">Waiting: sweeps are run one at a time.</p>')


def run_points(
    context: AppContext, batches: BatchContext, live: Cancellable | None, name: str | None, size: int, devices: str
) -> Generator[SweepButtons, None, None]:
    """Run the split of a run at every point of a grid, and yield the progress; finished videos are kept.

    A cancelled sweep yields only that it was cancelled.
    """
    live = live or Cancellable()  # an API client may call this without begin_sweep
    live.is_started = True
    try:
        planned = plan_sweep(batches, name, size, devices)
        events = run_sweep(
            planned.split,
            planned.work,
            planned.grid,
            out=planned.folder,
            scoring=planned.scoring,
            encode=context.encode,
            device=planned.device,
            resume=True,
        )
        with closing(events):
            for progress in events:
                if live.is_cancelled:
                    break
                yield _running(draw_sweep_progress(progress))
        yield _ended(_CANCELLED if live.is_cancelled else "")
    except (EngineError, ValueError, OSError) as error:
        yield _ended(f'<p class="problem">⚠ {escape(as_sentence(error))}</p>')
    finally:
        live.ended.set()


def halt_sweep(live: Cancellable | None) -> SweepButtons:
    """Request the end of a sweep after the current video, and show that."""
    if live is not None:
        live.is_cancelled = True
    status = '<p class="dim">Cancelling: the sweep ends after the current video.</p>'
    return _running(status)._replace(cancel=gr.Button(interactive=False))


def cancel_sweep(live: Cancellable | None) -> SweepButtons:
    """Wait for the end of a halted sweep, unless it has not started; show that it was cancelled."""
    if live is not None:
        live.stop()
    return _ended(_CANCELLED)


def draw_sweep_progress(progress: SweepProgress) -> str:
    """Return a progress bar of the finished runs, with a line of text, as HTML."""
    rest = "" if progress.remaining_s is None else f", {format_clock(progress.remaining_s)} left"
    words = (
        f"{progress.num_done} of {progress.num_runs} runs, {progress.num_finished} of {progress.num_videos} videos, "
        f"{progress.passes:,} model passes{rest}. The sweep ends if this window is closed; finished videos are kept."
    )
    failed = f" {progress.video_id} failed: {as_sentence(progress.error)}" if progress.error else ""
    return (
        f'<progress value="{progress.num_done}" max="{max(1, progress.num_runs)}" aria-label="runs done"></progress>'
        f'<p class="dim">{escape(words + failed)}</p>'
    )


def _running(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=False), cancel=gr.Button(interactive=True), progress=progress)


def _ended(progress: str) -> SweepButtons:
    return SweepButtons(exact=gr.Button(interactive=True), cancel=gr.Button(interactive=False), progress=progress)


def apply_best(best: BestPoint | None, said: str) -> AppliedPoint:
    """Set the thresholds of both tabs to the best point, and add that to the description ``said``."""
    if best is None:
        return AppliedPoint(*(gr.skip() for _ in AppliedPoint._fields))
    speak, update = best_thresholds(best)
    used = f"In use: the next run here and the player have {format_thresholds(speak, update)}."
    return AppliedPoint(
        speak=speak,
        update=update,
        player_speak=speak,
        player_update=update,
        said=f"{said.removesuffix(used).rstrip()} {used}",
    )

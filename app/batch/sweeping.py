"""A sweep as the page shows it: a heat map over both thresholds, and a curve for each through the best point."""

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr
import numpy as np
import pandas as pd

from app.batch.batches import FEATURES, SWEEPS, Batches
from app.batch.results import figure
from app.handlers import Bench
from app.words import clock, sentence
from engine.errors import EngineError
from eval.batch import find_places
from eval.grid import BestPoint, Grid, GridScores, find_best
from eval.preview import preview, read_traces
from eval.registry import find_metric
from eval.sweep import SweepProgress, run_sweep
from eval.sweep_files import read_sweep

SIZES: Final = (5, 9, 19)
"""Thresholds an axis."""


def make_grid(size: int) -> Grid:
    """Return ``size`` thresholds from 0.05 to 0.95 on each axis."""
    axis = tuple(np.linspace(0.05, 0.95, size).round(3).tolist())
    return Grid(speak=axis, update=axis)


def draw_heat_map(scores: GridScores, best: BestPoint) -> str:
    """Draw one score over the grid: update threshold upwards, speak threshold to the right, the best point outlined."""
    rows = scores.surface(best.metric)
    known = [value for row in rows for value in row if not math.isnan(value)]
    low, high = min(known), max(known)
    cells = []
    for place in reversed(range(len(rows))):
        update = scores.grid.update[place]
        cells.append(f'<span class="axis">{update:.2f}</span>')
        for speak, value in zip(scores.grid.speak, rows[place], strict=True):
            share = 0.0 if math.isnan(value) or high == low else (value - low) / (high - low)
            is_best = (speak, update) == (best.speak_threshold, best.update_threshold)
            cells.append(
                f'<span class="cell{" best" if is_best else ""}" style="--share: {100 * share:.1f}%" '
                f'title="speak {speak:g}, update {update:g}: {figure(value)}"></span>'
            )
    cells.append("<span></span>")
    cells += [f'<span class="axis">{speak:.2f}</span>' for speak in scores.grid.speak]
    label = f"{best.metric} from {figure(low)} to {figure(high)} over speak and update threshold"
    return (
        f'<div class="heat" role="img" aria-label="{label}" style="--columns: {len(scores.grid.speak)}">'
        f'{"".join(cells)}</div><p class="dim">{best.metric}: pale is {figure(low)}, full is {figure(high)}; outlined '
        "is the best. To the right: speak threshold; upwards: update threshold.</p>"
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


def describe(scores: GridScores, best: BestPoint) -> str:
    """Say which point is best, how it was found, and what to beware of."""
    how = (
        "each point was run"
        if scores.is_exact
        else "a preview from the traces: another decision would change what follows"
    )
    name = Path(scores.split).name
    caution = f" Beware: {scores.caution.replace(scores.split, name)}." if scores.caution else ""
    errors = f" {len(scores.errors)} videos have no scores." if scores.errors else ""
    return f"Best {best}; {how}, {scores.num_videos} videos.{errors}{caution} {find_metric(best.metric).definition}"


class SweepView(NamedTuple):
    """The outputs of the sweep; ``best`` is what the button applies."""

    said: Any
    heat: Any
    curves: Any
    best: Any
    apply: Any


NO_SWEEP = SweepView(said=gr.skip(), heat="", curves=None, best=None, apply=gr.Button(interactive=False))


def preview_sweep(batches: Batches, name: str | None, metric: str, size: int) -> SweepView:
    """Score a grid from the traces of the run that is shown."""
    try:
        split = batches.split_of(batches.settings_of(name))
        if name is None or split is None:
            raise ValueError("choose a run of a split that this page has")
        return _show_sweep(preview(read_traces(batches.runs / name, split), make_grid(size)), metric)
    except (ValueError, OSError) as error:
        return NO_SWEEP._replace(said=sentence(error))


def exact_sweep(
    bench: Bench, batches: Batches, name: str | None, metric: str, size: int, device: str
) -> Generator[SweepView]:
    """Run the split of the run that is shown at every point of a grid; what is finished is kept."""
    try:
        settings = batches.settings_of(name)
        split = batches.split_of(settings)
        if name is None or split is None:
            raise ValueError("choose a run of a split that this page has")
        checkpoint = str(settings.get("checkpoint", ""))
        if checkpoint != batches.work.checkpoint and not batches.takes_paths:
            raise ValueError("this page runs its own checkpoint only")
        heads = batches.work.heads if checkpoint == batches.work.checkpoint else None
        work = replace(batches.work, checkpoint=checkpoint, heads=heads, features=batches.runs / FEATURES)
        folder = batches.runs / SWEEPS / f"{split.path.stem}-{settings.get('model_digest', '')[:8]}-{size}"
        scoring, grid = batches.jobs.scoring, make_grid(size)
        moments = run_sweep(
            split, work, grid, out=folder, scoring=scoring, encode=bench.encode, device=_one(device), resume=True
        )
        with closing(moments):
            for moment in moments:
                yield SAME_SWEEP._replace(said=_sweep_words(moment))
        yield _show_sweep(read_sweep(folder), metric)
    except (EngineError, ValueError, OSError) as error:
        yield NO_SWEEP._replace(said=sentence(error))


def _one(devices: str) -> str:
    """Return the one device of a sweep: on the CPU a single thread, which is fastest for small models."""
    place = find_places(devices)[0].device
    return "cpu:1" if place == "cpu" else place


def apply_best(best: BestPoint | None) -> tuple[Any, Any, Any, Any]:
    """Set the thresholds of both tabs to the best point."""
    if best is None:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip()
    return best.speak_threshold, best.update_threshold, best.speak_threshold, best.update_threshold


SAME_SWEEP = SweepView(*(gr.skip() for _ in SweepView._fields))


def _show_sweep(scores: GridScores, metric: str) -> SweepView:
    best = find_best(scores, metric)
    return SweepView(
        said=describe(scores, best),
        heat=draw_heat_map(scores, best),
        curves=curves(scores, best),
        best=best,
        apply=gr.Button(f"Use {best.speak_threshold:g} and {best.update_threshold:g}", interactive=True),
    )


def _sweep_words(moment: SweepProgress) -> str:
    rest = "" if moment.remaining_s is None else f", {clock(moment.remaining_s)} left"
    return (
        f"{moment.num_done} of {moment.num_runs} runs, {moment.num_finished} of {moment.num_videos} videos, "
        f"{moment.passes:,} model passes{rest}."
    )

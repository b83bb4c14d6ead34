"""Calibrates the thresholds of a model that was never trained for its signals: an exact sweep on labelled videos."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.app.core.live_run import Cancellable
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import as_sentence
from stepscope.app.tabs.batch.sweeps.folders import PlannedSweep, place_sweep
from stepscope.app.tabs.batch.sweeps.handlers import follow_sweep
from stepscope.app.templates import render_note
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.runs.folder import explain_no_reference
from stepscope.eval.sweeps.best_point import find_best, recommend_metric
from stepscope.eval.sweeps.folder import read_sweep
from stepscope.eval.sweeps.grid import GRID_SIZES


class Calibration(NamedTuple):
    """Updates of the note and of the player's sliders."""

    note: Any
    speak: Any = gr.skip()
    update: Any = gr.skip()


def calibrate(context: AppContext, batches: BatchContext, clip: Clip | None) -> Generator[Calibration, None, None]:
    """Run the labelled videos at each point of a grid, yield the progress, and set the sliders to the best point.

    The videos are the shown upload, if it has a reference, else those of the split of the shown video. A sweep that was
    left is continued.
    """
    try:
        planned = _plan(context, batches, clip)
        for progress in follow_sweep(context, planned, Cancellable()):
            yield Calibration(note=progress)
        scores = read_sweep(planned.folder)
        best = find_best(scores, recommend_metric(scores.metrics))
    except (EngineError, ValueError, OSError) as error:
        yield Calibration(note=render_note(as_sentence(error), is_problem=True))
        return
    tied = f" {best.ties}." if best.ties else ""
    text = (
        f"Calibrated on {format_count(scores.num_videos, 'video')} of {planned.split.path.stem}: the best of "
        f"{len(best.grid)} points is {best.place} ({find_metric(best.metric).label}: {best.format(best.value)}).{tied} "
        "These videos chose the thresholds: score them on others."
    )
    update = best.update_threshold if best.grid.update else gr.skip()
    yield Calibration(note=render_note(text), speak=best.speak_threshold, update=update)


def _plan(context: AppContext, batches: BatchContext, clip: Clip | None) -> PlannedSweep:
    """Return the plan of the sweep. Raises ``ValueError`` if no video at hand has a reference."""
    split = _find_labelled(batches, clip)
    config = replace(batches.work.config, decision_policy=context.config.decision_policy)
    work = replace(batches.work, config=config, live=False, features=batches.runs / FEATURES_FOLDER)
    device = context.checkpoint.model.device.type
    return place_sweep(batches, split, work, size=GRID_SIZES[0], devices=device, scoring=batches.jobs.scoring)


def _find_labelled(batches: BatchContext, clip: Clip | None) -> Split:
    if clip is not None and clip.content_digest and clip.sample is not None and not clip.sample.is_copied:
        return Split(path=clip.path, entries=(replace(clip.sample, video_path=clip.path),))
    own = [batches.splits[clip.split]] if clip is not None and clip.split in batches.splits else []
    for split in (*own, *batches.splits.values()):
        if any(not explain_no_reference(sample) for sample in split.samples):
            return split
    raise ValueError("no video at hand has a reference; add one to the upload, or a split in the Batch tab")

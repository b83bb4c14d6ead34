"""Calibrates the thresholds of a model that was never trained for its signals: an exact sweep on labelled videos."""

from collections.abc import Generator
from dataclasses import replace
from functools import partial

import gradio as gr

from stepscope.app.batch.sweeps.folders import PlannedSweep, place_sweep
from stepscope.app.batch.sweeps.tab import (
    CANCELLED,
    run_planned,
)
from stepscope.app.controls.cancellable import WorkButtons, show_ended, wire_work
from stepscope.app.controls.widgets import SWEEP_QUEUE, Updates
from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.app.core.videos import Clip
from stepscope.app.player.component import patch_player
from stepscope.app.player.views import PlayerComponents
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable, Window
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Split
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.runs.folder import explain_no_reference
from stepscope.eval.sweeps.best_point import find_best, recommend_metric
from stepscope.eval.sweeps.exact import read_swept_videos
from stepscope.eval.sweeps.folder import read_sweep
from stepscope.eval.sweeps.grid import GRID_SIZES


def calibrate(context: AppContext, batches: BatchContext, handle: Cancellable, window: Window) -> Generator[Updates]:
    """Run the labelled videos at each point of a grid, yield the progress, and set the sliders to the best point.

    The videos are the shown upload, if it has a reference, else those of the split of the shown video. A sweep that was
    left is continued.
    """
    yield from run_planned(context, handle, partial(_plan, context, batches, window.clip), _read)


def wire_calibration(context: AppContext, batches: BatchContext, view: PlayerComponents, buttons: WorkButtons) -> None:
    """Wire the button of the player that calibrates its sliders, and the button that cancels it."""
    outputs = {**buttons._asdict(), **view.choose("speak", "update"), "preview": view.player}
    inputs, run = [gr.State(None), view.window], partial(calibrate, context, batches)
    wire_work(buttons, run, inputs, outputs, cancelled=CANCELLED, **SWEEP_QUEUE)


def _read(planned: PlannedSweep) -> Updates:
    scores = read_sweep(planned.folder)
    best = find_best(scores, recommend_metric(scores.metrics))
    place = best.grid.find(best.thresholds)
    videos = read_swept_videos(planned.folder, planned.split, num_points=len(best.grid))
    assert place is not None
    num_spoken = sum(video.runs[video.points[place]].speaking.num_decided for video in videos)
    silent = "" if num_spoken else " There the model never speaks: on these videos silence is best."
    tied = f" {best.ties}." if best.ties else ""
    text = (
        f"Calibrated on {format_count(scores.num_videos, 'video')} of {planned.split.path.stem}: the best of "
        f"{len(best.grid)} points is {best.place} ({find_metric(best.metric).label}: {best.format(best.value)})."
        f"{silent}{tied} These videos chose the thresholds: score them on others."
    )
    heads = {"speak": best.speak_threshold} | ({"update": best.update_threshold} if best.grid.update else {})
    return Updates(show_ended(text), **heads, preview=patch_player(thresholds=heads))


def _plan(context: AppContext, batches: BatchContext, clip: Clip | None) -> PlannedSweep:
    split = _find_labelled(batches, clip)
    config = replace(batches.work.config, decision_policy=context.config.decision_policy)
    work = replace(batches.work, config=config, live=False, features=batches.runs / FEATURES_FOLDER)
    device = context.checkpoint.model.device.type
    return place_sweep(batches, split, work, size=GRID_SIZES[0], devices=device, scoring=batches.jobs.scoring)


def _find_labelled(batches: BatchContext, clip: Clip | None) -> Split:
    if clip is not None and clip.content_digest and clip.sample is not None and not clip.sample.is_copied:
        return Split(path=clip.path, entries=(replace(clip.sample, video_path=clip.path),))
    own = [batches.splits[clip.split]] if clip is not None and clip.split in batches.splits else []
    for split in (*own, *batches.listed_splits().values()):
        if any(not explain_no_reference(sample) for sample in split.samples):
            return split
    raise ValueError("no video at hand has a reference; add one to the upload, or a split in the Batch tab")

"""Videos of splits in the player: of a run at its worst moment, a turn of two runs, or the reference alone."""

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from app.batch.batches import Batches
from app.batch.comparing import Compared
from app.clips import clip_of
from app.handlers import Bench
from app.runs import Run
from app.views import Buttons, ClipView, LiveRun, Page, RunView, Thresholds, show_clip, show_run
from app.words import clock, sentence
from engine.config import StreamConfig
from engine.errors import EngineError
from eval.runs import RunFolder, why_missing
from eval.samples import Sample
from eval.worker import task_of


def open_video(bench: Bench, batches: Batches, live: LiveRun | None, name: str | None, event: gr.SelectData) -> Page:
    """Show a video of a run in the player at its worst moment.

    Returns ``ClipView``, ``RunView``, ``Buttons``, ``Thresholds``, and which tab is open.
    """
    return open_moment(bench, batches, live, str(event.row_value[0]), names=(name,), open_at="worst")


def open_both(bench: Bench, batches: Batches, live: LiveRun | None, compared: Compared, event: gr.SelectData) -> Page:
    """Show a video in two runs at its worst moment, B's lanes below A's; returns what ``open_video`` does."""
    return open_moment(bench, batches, live, str(event.row_value[0]), names=compared[:2], open_at="worst")


def open_turn(bench: Bench, batches: Batches, live: LiveRun | None, compared: Compared, event: gr.SelectData) -> Page:
    """Show a turn in two runs, B's lanes below A's; returns what ``open_video`` does."""
    video_id, time_s, *_ = event.row_value
    return open_moment(bench, batches, live, str(video_id), names=compared[:2], open_at=float(time_s))


def open_moment(
    bench: Bench,
    batches: Batches,
    live: LiveRun | None,
    video_id: str,
    *,
    names: tuple[str | None, ...],
    open_at: float | Literal["worst"],
    open_event: str | None = None,
) -> Page:
    """Show a moment of a video of one run, or of two, in the player; returns what ``open_video`` does.

    With the key ``open_event`` it is that event which is shown there.
    """
    try:
        saved, *rest = [read_saved(bench, batches, name or "", video_id) for name in names]
        video = bench.copies.find_or_convert(saved.clip.path)
    except (EngineError, ValueError, OSError) as error:
        return _refuse(error)
    runs = " and ".join(run.name for run in (saved, *rest))
    where = "" if open_at == "worst" else f", at {clock(open_at, digits=1)}. Press N for the next failure"
    status = f"{saved.clip.name} in the run {runs}, {clock(saved.clip.duration_s)}{where}."
    now = LiveRun.over(saved, other=rest[0] if rest else None)
    run_view = show_run(saved, status, encode=bench.encode, open_at=open_at, open_event=open_event, other=now.other)
    return _show(live, saved, video, run_view, now=now)


def open_reference(
    bench: Bench, live: LiveRun | None, sample: Sample | None, *, open_at: float, open_event: str | None = None
) -> Page:
    """Show a moment of a video's reference, without a run, in the player; as ``open_moment`` otherwise."""
    try:
        if sample is None or sample.video_path is None:
            raise ValueError(f"{sample.video_id if sample else 'what was clicked'} has no video in its split")
        run = _plan(bench, sample, sample.video_path, StreamConfig(fps=sample.fps))
        video = bench.copies.find_or_convert(run.clip.path)
    except (EngineError, ValueError, OSError) as error:
        return _refuse(error)
    length = clock(run.clip.duration_s)
    status = f"{run.clip.name}, {length}, its reference alone at {clock(open_at, digits=1)}. Press Run for a run."
    run_view = show_run(run, status, encode=bench.encode, open_at=open_at, open_event=open_event)
    return _show(live, run, video, run_view, now=None)


def _refuse(error: Exception) -> Page:
    gr.Warning(escape(sentence(error)))
    return (gr.skip(),) * (len(ClipView._fields) + 4 + len(Buttons._fields) + 2 + 1)


def _show(live: LiveRun | None, run: Run, video: Path, run_view: RunView, *, now: LiveRun | None) -> Page:
    if live is not None:
        live.stop()
    clip_view = show_clip(run.clip, video, chosen=run.clip.name if run.clip.is_bundled else None)
    buttons = Buttons(live=now, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))
    thresholds = Thresholds(speak=run.config.speak_threshold, update=run.config.update_threshold)
    return (*clip_view, *run_view, *buttons, *thresholds, gr.Tabs(selected="player"))


def read_saved(bench: Bench, batches: Batches, name: str, video_id: str) -> Run:
    """Read one video of a run folder. Raises ``ValueError`` saying why it cannot be shown."""
    if name not in batches.names():
        raise ValueError(f"there is no run {name!r}; choose one from the list")
    folder = RunFolder(batches.runs / name)
    settings = folder.settings() or {}
    split = batches.split_of(settings)
    if split is None:
        raise ValueError(f"the run is of the split {settings.get('split')}; start the page with --split for it")
    sample = next((sample for sample in split.samples if sample.video_id == video_id), None)
    if sample is None or sample.video_path is None:
        raise ValueError(f"{video_id} has no video in {split.path.name}")
    if missing := why_missing(sample, folder.record(video_id)):
        raise ValueError(f"{video_id} has no outputs: {missing}")
    planned = _plan(bench, sample, sample.video_path, _config(settings, sample))
    model_digest = str(settings.get("model_digest", ""))
    outputs = folder.outputs(video_id)
    return replace(planned, model_digest=model_digest, outputs=outputs, name=name, is_finished=True)


def _plan(bench: Bench, sample: Sample, path: Path, config: StreamConfig) -> Run:
    """Return the run of a sample before its first frame."""
    clip = clip_of(sample, path, is_bundled=_is_bundled(bench, sample))
    return Run(clip=clip, task=task_of(sample), config=config)


def _is_bundled(bench: Bench, sample: Sample) -> bool:
    return any(clip.sample == sample for clip in bench.demos.clips)


def _config(settings: Mapping[str, Any], sample: Sample) -> StreamConfig:
    try:
        return StreamConfig(**{**settings.get("config", {}), "fps": sample.fps})
    except TypeError as error:
        raise ValueError("the run was made with settings that this version does not know") from error

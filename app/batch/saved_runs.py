"""Open videos of saved runs in the player: one run, two runs, or a reference without a run."""

import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from app.batch.context import BatchContext
from app.formatting import as_sentence, format_clock
from app.player.context import AppContext
from app.player.handlers import show_link_error
from app.player.session.live_run import LiveRun
from app.player.session.run import PAGE_SCORING, Run
from app.player.views import Buttons, PlayerView, RunView, SliderThresholds, show_clip, show_run
from app.videos import sample_clip
from engine.config import StreamConfig
from engine.errors import EngineError
from eval.data.samples import Sample
from eval.runs.folder import RunFolder, explain_missing
from eval.runs.worker import build_task


def open_video(
    context: AppContext, batches: BatchContext, live: LiveRun | None, name: str | None, event: gr.SelectData
) -> PlayerView:
    """Show a video of a run in the player at its worst moment."""
    video_id = batches.find_video(name, str(event.row_value[0]))
    return open_moment(context, batches, live, video_id, names=(name,), open_at="worst")


def open_moment(
    context: AppContext,
    batches: BatchContext,
    live: LiveRun | None,
    video_id: str,
    *,
    names: tuple[str | None, ...],
    open_at: float | Literal["worst"],
    open_event: str | None = None,
) -> PlayerView:
    """Show a moment of a video in one run, or in two, in the player.

    ``open_event`` is the key of the event to select.
    """
    try:
        saved, *rest = [read_saved(context, batches, name or "", video_id) for name in names]
        video = context.copies.find_or_convert(
            saved.clip.path, start_s=saved.clip.start_s, duration_s=saved.clip.duration_s
        )
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    below = f"; the lanes of the run {rest[0].name} are below" if rest else ""
    where = "" if open_at == "worst" else f", at {format_clock(open_at, digits=1)}. Press N for the next failure"
    status = (
        f"{saved.clip.name} in the run {saved.name}, {format_clock(saved.clip.duration_s)}{where}{below}."
        f"{_scoring_words(batches, saved)}"
    )
    now = LiveRun.finished(saved, other=rest[0] if rest else None)
    run_view = show_run(saved, status, encode=context.encode, open_at=open_at, open_event=open_event, other=now.other)
    return _show(live, saved, video, run_view, now=now)


def _scoring_words(batches: BatchContext, run: Run) -> str:
    """Return a note if the scoring differs from that of the page's runs, or the text encoder from that of the run."""
    scored, here = batches.settings_of(run.name).get("text_encoder"), batches.jobs.scoring.text_encoder
    encoder = (
        f" The run was scored by the text encoder {scored}; here it is {here}." if scored not in (None, here) else ""
    )
    named = [("dataset", run.scoring.dataset), ("zero_cost", run.scoring.zero_cost)]
    defaults = (PAGE_SCORING.dataset, PAGE_SCORING.zero_cost)
    words = [f"{name} {value or 'none'}" for (name, value), own in zip(named, defaults, strict=True) if value != own]
    return (f" Judged with {' and '.join(words)}, as the run was." if words else "") + encoder


def open_linked(
    context: AppContext, batches: BatchContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]
) -> PlayerView:
    """Show the moment of a link: a saved run, or two, a video and a time."""
    names = [link[key] for key in ("saved", "other") if link.get(key)]
    try:
        time_s = _read_moment(link)
        for name in names:
            read_saved(context, batches, name, link.get("video", ""))
    except (EngineError, ValueError, OSError) as error:
        return show_link_error(context, live, chosen, error)
    return open_moment(context, batches, live, link.get("video", ""), names=tuple(names), open_at=time_s)


def open_linked_reference(
    context: AppContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]
) -> PlayerView:
    """Show the moment of a link to the reference of a bundled video, without a run."""
    try:
        clip = context.bundled_videos.find(link.get("video", ""))
        open_at = _read_moment(link)
    except (EngineError, ValueError) as error:
        return show_link_error(context, live, chosen, error)
    return open_reference(context, live, clip.sample, open_at=open_at)


def _read_moment(link: Mapping[str, str]) -> float:
    time_s = float(link.get("t", 0))
    if not 0 <= time_s < math.inf:
        raise ValueError(f"t must be a time in seconds; got {link['t']}")
    return time_s


def open_reference(
    context: AppContext, live: LiveRun | None, sample: Sample | None, *, open_at: float, open_event: str | None = None
) -> PlayerView:
    """Show a moment of a video's reference, without a run, in the player; else as ``open_moment``."""
    try:
        if sample is None or sample.video_path is None:
            raise ValueError(f"{sample.video_id if sample else 'this row'} has no video in its split")
        planned = _plan(context, sample, sample.video_path, replace(context.config, fps=sample.fps))
        run = replace(planned, is_finished=True)  # there is nothing to run
        video = context.copies.find_or_convert(run.clip.path, start_s=run.clip.start_s, duration_s=run.clip.duration_s)
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    length = format_clock(run.clip.duration_s)
    opened = format_clock(open_at, digits=1)
    status = f"{run.clip.name}, {length}, its reference only at {opened}. Press Run to run the model."
    run_view = show_run(run, status, encode=context.encode, open_at=open_at, open_event=open_event)
    return _show(live, run, video, run_view, now=None)


def refuse(error: Exception) -> PlayerView:
    """Show a warning, and change nothing."""
    gr.Warning(escape(as_sentence(error)))
    return PlayerView()


def _show(live: LiveRun | None, run: Run, video: Path, run_view: RunView, *, now: LiveRun | None) -> PlayerView:
    if live is not None:
        live.stop()
    clip_view = show_clip(run.clip, video, chosen=run.clip.name if run.clip.is_bundled else None)
    buttons = Buttons(live=now, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))
    thresholds = SliderThresholds(speak=run.config.speak_threshold, update=run.config.update_threshold)
    return PlayerView(
        clip=clip_view, run=run_view, buttons=buttons, thresholds=thresholds, tabs=gr.Tabs(selected="player")
    )


def read_saved(context: AppContext, batches: BatchContext, name: str, video_id: str) -> Run:
    """Read one video of a run folder. Raises ``ValueError`` with the reason if it cannot be shown."""
    if name not in batches.run_names():
        raise ValueError(f"there is no run {name!r}; choose one from the list")
    folder = RunFolder(batches.runs / name)
    settings = folder.settings() or {}
    split = batches.split_of(settings)
    if split is None:
        raise ValueError(f"the run is of the split {settings.get('split')}; start the page with --split for it")
    sample = next((sample for sample in split.samples if sample.video_id == video_id), None)
    if sample is None or sample.video_path is None:
        raise ValueError(f"{video_id} has no video in {split.path.name}")
    if missing := explain_missing(sample, folder.record(video_id)):
        raise ValueError(f"{video_id} has no outputs: {missing}")
    planned = _plan(context, sample, sample.video_path, _config(settings, sample))
    model_digest = str(settings.get("model_digest", ""))
    record = folder.record(video_id)
    return replace(
        planned,
        model_digest=model_digest,
        outputs=folder.outputs(sample),
        scoring=batches.scoring_of(settings),
        live=None if record is None else record.live,
        name=name,
        is_finished=True,
        settings={**settings, **context.encoder},
    )


def _plan(context: AppContext, sample: Sample, path: Path, config: StreamConfig) -> Run:
    """Return the run of a sample before its first frame."""
    clip = sample_clip(sample, path, is_bundled=_is_bundled(context, sample))
    return Run(clip=clip, task=build_task(sample), config=config)


def _is_bundled(context: AppContext, sample: Sample) -> bool:
    return any(clip.sample == sample for clip in context.bundled_videos.clips)


def _config(settings: Mapping[str, Any], sample: Sample) -> StreamConfig:
    try:
        return StreamConfig(**{**settings.get("config", {}), "fps": sample.fps})
    except TypeError as error:
        raise ValueError("the run has settings that this version does not support") from error

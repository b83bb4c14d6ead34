"""Open videos of saved runs in the player: one run, two runs, or a reference without a run."""

import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.widgets import read_event
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.results import VideoFilter, choose_rows
from stepscope.app.core.run import PAGE_SCORING, Run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import Clip, sample_clip
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.opening.clips import find_linked_clip, open_page, show_link_error
from stepscope.app.web.views import Buttons, PlayerView, RunView, SliderThresholds, show_clip, show_run
from stepscope.engine.errors import EngineError
from stepscope.eval.annotations.corrections import TurnName
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import UNSCORED, RunFolder

FURTHER: Final = {"search": "moment of the search", "settle": "one to settle"}
"""What N opens next, by ``of`` of a hit."""


class OpenedHit(NamedTuple):
    """The player at a moment, and the place of that moment in its list."""

    player: Any
    at: Any


def open_video(
    context: AppContext, batches: BatchContext, live: LiveRun | None, name: str | None, event: gr.SelectData
) -> PlayerView:
    """Show a video of a run in the player at its worst moment."""
    video_id = batches.find_video(name, str(event.row_value[0]))
    return open_moment(context, batches, live, video_id, names=(name,), open_at="worst")


def step_video(
    context: AppContext, batches: BatchContext, live: LiveRun | None, name: str | None, chosen: VideoFilter, *, by: int
) -> PlayerView:
    """Show the next (1) or previous (-1) video of the player's run at its worst moment.

    ``chosen`` are the videos and the order of the table of the run ``name``; another run has all, as in its split.
    """
    run = live.run if live is not None else None
    shown = run.name or run.kept_as if run is not None else ""
    if run is None or not shown:
        return refuse(ValueError("the player shows no saved run; open a video of one in Batch, Videos"))
    try:
        rows = read_results(batches.folder(shown)).rows or batches.recorded_rows(shown)
    except (ValueError, OSError) as error:
        return refuse(error)
    listed = choose_rows(rows, chosen if shown == name else "")
    ids = [str(row["video_id"]) for row in listed if row["error"] in ("", *UNSCORED)]
    at = ids.index(run.clip.name) + by if run.clip.name in ids else 0
    if not 0 <= at < len(ids):
        return refuse(ValueError(f"this is the {'last' if by > 0 else 'first'} video of the run's table"))
    return open_moment(context, batches, live, ids[at], names=(shown,), open_at="worst")


def open_picked(
    context: AppContext, batches: BatchContext, live: LiveRun | None, name: str | None, event: gr.EventData
) -> PlayerView:
    """Show the video of a picked point of a chart in the player at its worst moment."""
    return open_moment(context, batches, live, str(read_event(event, "point")), names=(name,), open_at="worst")


def open_moment(
    context: AppContext,
    batches: BatchContext,
    live: LiveRun | None,
    video_id: str,
    *,
    names: tuple[str | None, ...],
    open_at: float | Literal["worst"],
    open_event: str | None = None,
    open_turn: TurnName | None = None,
    is_b_above: bool = False,
    hit: Mapping[str, Any] | None = None,
) -> PlayerView:
    """Show a moment of a video in one run, or in two, A and B, in the player.

    ``open_event`` is the key of the event to select, or ``open_turn`` the reference turn. With ``is_b_above``, A is
    below B. ``hit`` is the place of the moment in a list, as in ``pack_run``, whose next moment N opens.
    """
    try:
        runs = [read_saved(context, batches, name or "", video_id) for name in names]
        if len(runs) > 1:
            runs = [replace(run, letter=letter) for run, letter in zip(runs, "AB", strict=True)]
        saved, *rest = reversed(runs) if is_b_above else runs
        video = context.copies.find_or_convert(
            saved.clip.path, start_s=saved.clip.start_s, duration_s=saved.clip.duration_s
        )
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    below = saved.describe_lower_run(rest[0] if rest else None)
    further = FURTHER[hit["of"]] if hit else "failure"
    where = "" if open_at == "worst" else f", at {format_clock(open_at, digits=1)}. Press N for the next {further}"
    status = (
        f"{saved.clip.name} in the run {saved.name}, {format_clock(saved.clip.duration_s)}{where}{below}."
        f"{_scoring_words(batches, saved)}"
    )
    now = LiveRun.finished(saved, other=rest[0] if rest else None)
    run_view = show_run(
        saved,
        status,
        encode=context.encode,
        open_at=open_at,
        open_event=open_event,
        open_turn=open_turn,
        other=now.other,
        hit=hit,
    )
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
    is_b_above = len(names) > 1 and link.get("above") == "B"
    video_id = link.get("video", "")
    return open_moment(context, batches, live, video_id, names=tuple(names), open_at=time_s, is_b_above=is_b_above)


def open_linked_rerun(
    context: AppContext, batches: BatchContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]
) -> PlayerView:
    """Show the run of a link as ``open_page`` does, above the saved run ``other`` of the link."""
    name, other = link.get("other"), None
    if name and "video" in link:
        try:
            other = read_saved(context, batches, name, find_linked_clip(context, link).video_id)
        except (EngineError, ValueError, OSError) as error:
            return show_link_error(context, live, chosen, error)
        other = replace(other, letter="A" if link.get("above") == "B" else "B")
    return open_page(context, live, chosen, link, other=other)


def open_linked_reference(
    context: AppContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]
) -> PlayerView:
    """Show the moment of a link to the reference of a video, without a run."""
    try:
        clip = find_linked_clip(context, link)
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
    context: AppContext,
    live: LiveRun | None,
    sample: Sample | None,
    *,
    open_at: float,
    open_event: str | None = None,
    hit: Mapping[str, Any] | None = None,
) -> PlayerView:
    """Show a moment of a video's reference, without a run, in the player; else as ``open_moment``."""
    try:
        if sample is None or sample.video_path is None:
            raise ValueError(f"{sample.video_id if sample else 'this row'} has no video in its split")
        clip, config = _find_clip(context, sample, sample.video_path), replace(context.config, fps=sample.fps)
        run = Run(clip=clip, task=build_task(sample), config=config, is_finished=True)  # there is nothing to run
        video = context.copies.find_or_convert(run.clip.path, start_s=run.clip.start_s, duration_s=run.clip.duration_s)
    except (EngineError, ValueError, OSError) as error:
        return refuse(error)
    length = format_clock(run.clip.duration_s)
    opened = format_clock(open_at, digits=1)
    status = f"{run.clip.name}, {length}, its reference only at {opened}. Press Run to run the model."
    run_view = show_run(run, status, encode=context.encode, open_at=open_at, open_event=open_event, hit=hit)
    return _show(live, run, video, run_view, now=None)


def refuse(error: Exception) -> PlayerView:
    """Show a warning, and change nothing."""
    gr.Warning(escape(as_sentence(error)))
    return PlayerView()


def _show(live: LiveRun | None, run: Run, video: Path, run_view: RunView, *, now: LiveRun | None) -> PlayerView:
    if live is not None:
        live.stop()
    clip_view = show_clip(run.clip, video, chosen=run.clip.name if run.clip.is_bundled else None, run=run)
    buttons = Buttons(live=now, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))
    thresholds = SliderThresholds(speak=run.config.speak_threshold, update=run.config.update_threshold)
    return PlayerView(
        clip=clip_view,
        run=run_view,
        buttons=buttons,
        thresholds=thresholds,
        tabs=gr.Tabs(selected="player"),
        strategy=run.config.context_strategy,
    )


def read_saved(context: AppContext, batches: BatchContext, name: str, video_id: str) -> Run:
    """Read one video of a run folder. Raises ``ValueError`` with the reason if it cannot be shown."""
    if name not in batches.run_names():
        raise ValueError(f"there is no run {name!r}; choose one from the list")
    folder = RunFolder(batches.folder(name))
    settings = folder.settings() or {}
    split = batches.split_of(settings)
    if split is None:
        raise ValueError(f"the run is of the split {settings.get('split')}; start the page with --split for it")
    sample = next((sample for sample in split.samples if sample.video_id == video_id), None)
    if sample is None or sample.video_path is None:
        raise ValueError(f"{video_id} has no video in {split.path.name}")
    clip = _find_clip(context, sample, sample.video_path)
    run = read_saved_run(folder, clip, scoring=batches.scoring_of(settings), encoder=context.encoder)
    return replace(run, name=name)  # the folder of the bundled run has another name


def _find_clip(context: AppContext, sample: Sample, path: Path) -> Clip:
    """Return the clip of a sample: a bundled one, or that of a split of the page."""
    is_bundled = _is_bundled(context, sample)
    splits = () if is_bundled else context.splits.items()
    split = next((name for name, found in splits if sample in found.samples), "")
    return sample_clip(sample, path, is_bundled=is_bundled, split=split)


def _is_bundled(context: AppContext, sample: Sample) -> bool:
    return any(clip.sample == sample for clip in context.bundled_videos.clips)

"""Opens a bundled video, or the video, run and moment of a link, in the player."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.controls.run_inputs import read_strategy
from stepscope.app.controls.widgets import begin
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip, find_split_clip
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.web.views import (
    Buttons,
    ClipView,
    PlayerView,
    SliderThresholds,
    show_clip,
    show_nothing,
    show_run,
    status_line,
    task_boxes,
)
from stepscope.engine.config import read_threshold
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError

CHOOSE = "Choose a bundled video or upload one."


def choose_bundled(
    context: AppContext, live: LiveRun | None, name: str | None, speak: object = None, update: object = None
) -> PlayerView:
    """Show a bundled video and its task, with its saved run if that has the thresholds of the sliders.

    Without ``speak`` and ``update`` the sliders have their values of the start.
    """
    if name is None:
        return _without_clip(live, context.bundled_videos.notice or CHOOSE, task=gr.skip())
    try:
        clip = context.bundled_videos.find(name)
        video = context.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        return _without_clip(live, as_sentence(error), is_problem=True, task="")
    saved = context.find_saved(clip)
    sliders = SliderThresholds(speak=speak, update=update)
    if saved is not None and _has_thresholds(saved, sliders):
        return _show_saved(context, live, saved, video, chosen=gr.skip(), open_at="first")
    kept = f" Its saved run has {saved.config.thresholds_text}." if saved is not None else ""
    status = f"{clip.name}, {format_clock(clip.duration_s)}.{kept} Press Run. {context.bundled_videos.notice}".strip()
    return PlayerView(
        clip=show_clip(clip, video, chosen=gr.skip()), run=show_nothing(status, clip=clip), buttons=cancel_run(live)
    )


def _has_thresholds(run: Run, sliders: SliderThresholds) -> bool:
    """Return whether a run has the thresholds of the sliders; None is the threshold of the run."""
    own = (run.thresholds.speak, run.thresholds.update)
    return all(slider in (None, threshold) for slider, threshold in zip(sliders, own, strict=True))


def _show_saved(
    context: AppContext,
    live: LiveRun | None,
    run: Run,
    video: Path,
    *,
    chosen: Any,
    open_at: Literal["first"] | None = None,
    other: Run | None = None,
) -> PlayerView:
    """Show the saved run of a bundled video: at its first failure, or where the address leads."""
    if live is not None:
        live.stop()
    status = f"{run.clip.name}, {format_clock(run.clip.duration_s)}, with its saved run. Press Run to stream it again"
    status += f"{run.describe_lower_run(other)}."
    return PlayerView(
        clip=show_clip(run.clip, video, chosen=chosen),
        run=show_run(run, status, encode=context.encode, open_at=open_at, other=other),
        buttons=cancel_run(None)._replace(live=LiveRun.finished(run, other=other)),
        thresholds=SliderThresholds(speak=run.config.speak_threshold, update=run.config.update_threshold),
    )


def open_page(
    context: AppContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str], *, other: Run | None = None
) -> PlayerView:
    """Show the bundled video that the page opens on, or open a link.

    A link (see ``linkedMoment`` in the player, and ``app.core.places``) has a bundled video or an upload,
    thresholds, a context strategy, a time to which the player seeks, and a run. The run is restored if this server has
    kept it or if it is the saved one, and run again otherwise. ``other`` is the run to show below it.
    """
    if not {"video", "upload"} & set(link):
        return choose_bundled(context, live, chosen)
    try:
        clip = find_linked_clip(context, link)
        thresholds = SliderThresholds(
            speak=read_threshold(link.get("speak", context.config.speak_threshold), "speak"),
            update=read_threshold(link.get("update", context.config.update_threshold), "update"),
        )
        strategy = read_strategy(link.get("context"), context.config.context_strategy)
        video = context.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        return show_link_error(context, live, chosen, error)
    saved = context.find_saved(clip)
    is_saved = saved is not None and (
        saved.digest == link["run"]
        if "run" in link
        else _has_thresholds(saved, thresholds) and saved.config.context_strategy == strategy
    )
    if saved is not None and is_saved:
        open_at: Literal["first"] | None = None if "run" in link or "t" in link else "first"
        saved = saved.with_letter_beside(other)
        view = _show_saved(context, live, saved, video, chosen=clip.name, open_at=open_at, other=other)
        return view._replace(strategy=saved.config.context_strategy)
    run = context.recent.find_run(link.get("run"), clip)
    clip_view = ClipView(
        clip=clip,
        video=str(video),
        chosen=clip.name if clip.is_bundled else None,
        upload=gr.skip() if clip.content_digest else None,
        **(task_boxes(run or clip.sample or Task())),
    )
    if run is not None:
        run = run.with_letter_beside(other)
        status = f"{clip.name}, {format_clock(clip.duration_s)}, the earlier run. Press N for the next failure"
        status += f"{run.describe_lower_run(other)}."
        buttons = cancel_run(live)._replace(live=LiveRun.finished(run, other=other))
        of_run = SliderThresholds(speak=run.config.speak_threshold, update=run.config.update_threshold)
        run_view = show_run(run, status, encode=context.encode, other=other)
        strategy = run.config.context_strategy
        return PlayerView(clip=clip_view, run=run_view, buttons=buttons, thresholds=of_run, strategy=strategy)
    if "run" not in link or clip.content_digest:
        notice = " Its run is no longer available." if "run" in link else ""
        status = f"{clip.name}, {format_clock(clip.duration_s)}.{notice} Press Run."
        buttons = cancel_run(live)
    else:
        waiting = LiveRun(linked_digest=link["run"], other=other)
        status, buttons = "Waiting to start.", show_running_buttons(waiting)
    run_view = show_nothing(status, clip=clip)
    return PlayerView(clip=clip_view, run=run_view, buttons=buttons, thresholds=thresholds, strategy=strategy)


def find_linked_clip(context: AppContext, link: Mapping[str, str]) -> Clip:
    """Return the upload, or the video of a split or of the bundled ones. Raises ``ValueError`` if there is none."""
    if "upload" in link:
        return context.recent.find_clip(link["upload"])
    video_id = link.get("video", "")
    return (
        find_split_clip(context.splits, link["split"], video_id)
        if "split" in link
        else context.bundled_videos.find(video_id)
    )


def show_link_error(context: AppContext, live: LiveRun | None, chosen: str | None, error: Exception) -> PlayerView:
    """Show the bundled video that the page opens on, and why a link failed."""
    shown = choose_bundled(context, live, chosen)
    status = status_line(as_sentence(f"the link cannot be opened: {error}"), is_problem=True)
    return shown._replace(run=shown.run._replace(status=status))


def show_running_buttons(live: LiveRun) -> Buttons:
    """Return the buttons of a run that enters the queue of the model."""
    return Buttons(live=live, run=gr.Button(interactive=False), stop=gr.Button(interactive=True), stream=begin())


def _without_clip(live: LiveRun | None, status: str, *, task: Any, is_problem: bool = False) -> PlayerView:
    view = ClipView(clip=None, video=None, chosen=None, upload=None, goal=task, steps=task, user_turns=task)
    return PlayerView(clip=view, run=show_nothing(status, is_problem=is_problem), buttons=cancel_run(live))


def cancel_run(live: LiveRun | None) -> Buttons:
    """Cancel the current run, wait for its end, and enable Run."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))

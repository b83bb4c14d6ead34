"""Event handlers of the player: functions from component values to component updates.

Each handler returns a view, whose fields are wired to outputs by ``app.page``. Problems with a video or an input are
shown in the status line. Each window has its own ``LiveRun``, and nothing is global, so that
windows do not interfere.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from stepscope.app.controls.context_choice import read_strategy
from stepscope.app.controls.widgets import begin
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.player.context import AppContext
from stepscope.app.player.session.live_run import LiveRun
from stepscope.app.player.session.references import add_reference, describe_reference
from stepscope.app.player.session.run import Run, check_task_text
from stepscope.app.player.views import (
    UNCHANGED_CLIP,
    Buttons,
    ClipView,
    PlayerView,
    SliderThresholds,
    show_clip,
    show_nothing,
    show_run,
    show_status,
    status_line,
    task_boxes,
)
from stepscope.app.videos import Clip, find_split_clip
from stepscope.engine.config import read_threshold
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_steps, parse_user_turn
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_surrogates, strip_text

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
    status += f"{run.describe_below(other)}."
    return PlayerView(
        clip=show_clip(run.clip, video, chosen=chosen),
        run=show_run(run, status, encode=context.encode, open_at=open_at, other=other),
        buttons=cancel_run(None)._replace(live=LiveRun.finished(run, other=other)),
        thresholds=SliderThresholds(speak=run.config.speak_threshold, update=run.config.update_threshold),
    )


def set_reference(context: AppContext, live: LiveRun | None, clip: Clip | None, reference: str | None) -> PlayerView:
    """Set or remove the reference of the displayed upload.

    An unusable file changes nothing but the status line.
    """
    if clip is None or not clip.content_digest:
        problem = "A reference belongs to an upload: upload a video first." if reference else ""
        return PlayerView(run=show_status(problem, is_problem=True)) if problem else PlayerView()
    if reference is None:
        clip = replace(clip, sample=None)
        context.recent.keep_clip(clip)
        status = f"{clip.name}, {format_clock(clip.duration_s)}, without a reference."
        return _with_run(context, live, UNCHANGED_CLIP._replace(clip=clip), clip, status)
    path = Path(reference)
    try:
        clip, sample = add_reference(clip, path)
    except (ValueError, OSError) as error:
        return PlayerView(run=show_status(as_sentence(error), is_problem=True))
    status, is_mismatch = describe_reference(clip, sample, path)
    context.recent.keep_clip(clip)
    view = UNCHANGED_CLIP._replace(**task_boxes(sample), clip=clip)
    return _with_run(context, live, view, clip, status, is_problem=is_mismatch)


def _with_run(
    context: AppContext, live: LiveRun | None, view: ClipView, clip: Clip, status: str, *, is_problem: bool = False
) -> PlayerView:
    """Show an upload whose reference was exchanged, with the outputs of its run so far, scored if they can be."""
    buttons = cancel_run(live)
    run = live.run if live is not None else None
    if run is None or not run.outputs or run.clip.video_id != clip.video_id:
        return PlayerView(clip=view, run=show_nothing(status, clip=clip, is_problem=is_problem), buttons=buttons)
    sample = clip.sample
    is_comparable = sample is None or (sample.steps == run.task.steps and sample.fps == run.config.fps)
    if not is_comparable:
        status += " It does not score the run shown, which has other steps or another frame rate."
    elif sample is not None:
        status = f"{status.removesuffix(' Press Run.')} The run is scored by it."
    own = replace(run.clip, sample=None) if sample is None or not is_comparable else clip
    run = replace(run, clip=own)
    context.recent.keep_run(run)
    shown = show_run(run, status, encode=context.encode, is_problem=is_problem, is_opening=True)
    now = LiveRun.finished(run, recording=live.recording if live is not None else None)
    context.recordings.keep(now)
    return PlayerView(clip=view, run=shown, buttons=buttons._replace(live=now))


def open_page(
    context: AppContext, live: LiveRun | None, chosen: str | None, link: Mapping[str, str], *, other: Run | None = None
) -> PlayerView:
    """Show the bundled video that the page opens on, or open a link.

    A link (see ``linkedMoment`` in the player, and ``app.player.session.places``) has a bundled video or an upload,
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
        view = _show_saved(context, live, saved.above(other), video, chosen=clip.name, open_at=open_at, other=other)
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
        run = run.above(other)
        status = f"{clip.name}, {format_clock(clip.duration_s)}, the earlier run. Press N for the next failure"
        status += f"{run.describe_below(other)}."
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


def queue_run(
    context: AppContext,
    live: LiveRun | None,
    clip: Clip | None,
    goal: str,
    steps: str,
    user_turns: str,
    speak: object,
    update: object,
    strategy: object = None,
) -> PlayerView:
    """Prepare the page for a run, which may wait for the runs of other windows.

    The display stays until the run has output. An invalid input is refused and cancels nothing.
    """
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        _check_has_task(clip, task, needs_steps=context.config.policy.has_updates)
        read_threshold(speak, "speak")
        read_threshold(update, "update")
        read_strategy(strategy, context.config.context_strategy)
    except ValueError as error:
        return PlayerView(run=show_status(as_sentence(error), is_problem=True))
    if live is not None:
        live.is_cancelled = True
    status = show_status(context.model_use.describe_wait())
    return PlayerView(run=status, buttons=show_running_buttons(LiveRun()))


def show_running_buttons(live: LiveRun) -> Buttons:
    """Return the buttons of a run that enters the queue of the model."""
    return Buttons(live=live, run=gr.Button(interactive=False), stop=gr.Button(interactive=True), stream=begin())


def stop_run(live: LiveRun | None) -> None:
    """Cancel a run and wait for its end, so that no update of it arrives after that of ``show_stopped``."""
    if live is not None:
        live.stop()


def show_stopped(context: AppContext, live: LiveRun | None) -> PlayerView:
    """Show the outputs of a cancelled run so far.

    It remains the window's run and can be re-run: thresholds that are requested meanwhile apply to it.
    """
    buttons = cancel_run(live)
    if live is None or live.run is None or not live.run.outputs:
        return PlayerView(run=show_nothing("Stopped before the first frame."), buttons=buttons)
    run = live.run
    context.recent.keep_run(run)
    context.recordings.keep(live)
    live.is_cancelled = not live.ended.is_set()
    status = f"Stopped at {format_clock(run.reached_s)} of {format_clock(run.clip.duration_s)}."
    run_view = show_run(run, status, encode=context.encode, other=live.other)
    rerun = begin() if live.requested not in (None, run.thresholds) else gr.skip()
    return PlayerView(run=run_view, buttons=buttons._replace(live=live, rerun=rerun))


def finish_run(live: LiveRun | None) -> Buttons:
    """Enable Run after a run has ended, unless the next run has started; the ended run can be re-run."""
    if live is None or not live.ended.is_set():
        return Buttons(live=gr.skip(), run=gr.skip(), stop=gr.skip())
    return cancel_run(None)._replace(live=gr.skip())


def read_task(clip: Clip, *, goal: str | None, steps: str | None, user_turns: str | None) -> Task:
    """Return the task in the boxes; None counts as empty. Raises ``ValueError`` with the invalid line."""
    goal, steps, user_turns = (replace_surrogates(text or "") for text in (goal, steps, user_turns))
    check_task_text(goal, steps, user_turns)
    parsed = parse_steps(steps)
    turns = tuple(parse_user_turn(line) for line in user_turns.splitlines() if strip_text(line))
    for turn in turns:
        if turn.time_s >= clip.duration_s:
            at, end_s = format_clock(turn.time_s), format_clock(clip.duration_s)
            raise ValueError(f"the user turn at {at} comes after the end of the video ({end_s}): {turn.text!r}")
    known = {step.id for step in parsed}
    states = clip.sample.initial_state if clip.sample else {}
    return Task(
        goal=strip_text(goal),
        steps=parsed,
        user_turns=turns,
        initial_state={step_id: state for step_id, state in states.items() if step_id in known},
    )


def _check_has_task(clip: Clip, task: Task, *, needs_steps: bool) -> None:
    """Raise ``ValueError`` if the boxes of an upload lack its goal or steps; a reference may have none."""
    if not clip.content_digest or clip.sample is not None:
        return
    missing = [] if task.goal else ["a goal"]
    missing += ["its steps, one per line"] if needs_steps and not task.steps else []
    if missing:
        raise ValueError(f"{clip.name} needs {' and '.join(missing)}; enter them, or add a reference, then press Run")


def _without_clip(live: LiveRun | None, status: str, *, task: Any, is_problem: bool = False) -> PlayerView:
    view = ClipView(clip=None, video=None, chosen=None, upload=None, goal=task, steps=task, user_turns=task)
    return PlayerView(clip=view, run=show_nothing(status, is_problem=is_problem), buttons=cancel_run(live))


def cancel_run(live: LiveRun | None) -> Buttons:
    """Cancel the current run, wait for its end, and enable Run."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))

"""Event handlers of the player: functions from component values to component updates.

Each handler returns a view. Problems with a video or input are shown
in the status line. Each window has its own ``Window``, and nothing is global, so that windows do not interfere.
"""

from dataclasses import replace
from pathlib import Path

from stepscope.app.controls.run_inputs import read_strategy
from stepscope.app.controls.widgets import make_ticket
from stepscope.app.core.references import add_reference, describe_reference
from stepscope.app.core.run import can_score, check_has_task, read_task
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.player.opening import cancel_run, enable_run, show_running_buttons
from stepscope.app.player.proposals import needs_proposal
from stepscope.app.player.views import PlayerView, show_nothing, show_run, show_status, task_boxes
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import FIRST_FROM_START
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import read_threshold
from stepscope.engine.control.task import Task


def set_reference(context: AppContext, window: Window, reference: str | None, *boxes: str | None) -> PlayerView:
    """Set or remove the reference of the displayed upload.

    ``boxes`` are goal, steps and user turns: a typed one stays where the reference has none. An unusable file changes
    nothing but the status line.
    """
    clip = window.clip
    if clip is None or not clip.content_digest:
        return PlayerView()  # another video was opened
    if reference is None:
        clip = replace(clip, sample=None)
        context.recent.keep_clip(clip)
        status = f"{clip.name}, {format_clock(clip.duration_s)}, without a reference."
        return _with_run(context, window, PlayerView(clip=clip), clip, status)
    path, last = Path(reference), task_boxes(clip.sample or Task())
    typed = {name: box for (name, own), box in zip(last.items(), boxes, strict=False) if box and box != own}
    try:
        clip, sample = add_reference(clip, path)
    except (ValueError, OSError) as error:
        return show_status(as_sentence(error), is_problem=True)
    given = task_boxes(sample)
    replaced = [name.replace("_", " ") for name, box in typed.items() if given[name] not in ("", box)]
    status, is_mismatch = describe_reference(clip, sample, path, replaced=replaced)
    context.recent.keep_clip(clip)
    filled = {name: text for name, text in given.items() if text or name not in typed}
    view = PlayerView(clip=clip, **filled)
    return _with_run(context, window, view, clip, status, is_problem=is_mismatch)


def _with_run(
    context: AppContext, window: Window, view: PlayerView, clip: Clip, status: str, *, is_problem: bool = False
) -> PlayerView:
    """Show an upload whose reference was exchanged, with the outputs of its run so far, scored if they can be."""
    stop_run(window)  # then it has the outputs so far
    live, run, buttons = window.live, window.run, cancel_run()
    if run is None or not run.outputs or run.clip.video_id != clip.video_id:
        return PlayerView(view, buttons, show_nothing(status, clip=clip, is_problem=is_problem))
    sample = clip.sample
    is_comparable = sample is None or (can_score(sample, run.task) and sample.fps == run.config.fps)
    if not is_comparable:
        status += " It does not score the run shown, which has other steps or another frame rate."
    elif sample is not None:
        status = f"{status.removesuffix(' Press Run.')} The run is scored by it."
    own = replace(run.clip, sample=None) if sample is None or not is_comparable else clip
    run = replace(run, clip=own, has_other_steps=sample is not None and not can_score(sample, run.task))
    context.recent.keep_run(run)
    shown = show_run(run, status, encode=context.encode, is_problem=is_problem, destination=FIRST_FROM_START)
    now = LiveRun.finished(run, recording=live.recording if live is not None else None)
    context.recordings.keep(now)
    return PlayerView(view, shown, buttons, live=now)


def queue_run(
    context: AppContext,
    window: Window,
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
    clip = window.clip
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        if not clip.has_file:
            raise ValueError(f"{clip.name} has no video to run: give the video_path of it in its split")
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        if clip.content_digest and clip.sample is None:  # a reference may have none
            cure = "or add a reference, then press Run"
            needs_steps = context.config.policy.has_updates and not needs_proposal(context, clip, steps)
            check_has_task(clip.name, task, needs_steps=needs_steps, cure=cure)
        read_threshold(speak, "speak")
        read_threshold(update, "update")
        read_strategy(strategy, context.config.context_strategy)
    except ValueError as error:
        return show_status(as_sentence(error), is_problem=True)
    return PlayerView(show_status(context.model_use.describe_wait()), show_running_buttons(LiveRun()))


def stop_run(window: Window) -> None:
    """Cancel a run and wait for its end, so that no update of it arrives after that of ``show_stopped``."""
    if window.live is not None:
        window.live.stop()


def show_stopped(context: AppContext, window: Window) -> PlayerView:
    """Show the outputs of a cancelled run so far, or the video without any.

    It remains the window's run and can be re-run: thresholds that are requested meanwhile apply to it.
    """
    stop_run(window)
    live = window.live
    if live is None or live.run is None or not live.run.outputs:
        return PlayerView(show_nothing("Stopped before the first frame.", clip=window.clip), cancel_run())
    run = live.run
    context.recent.keep_run(run)
    context.recordings.keep(live)
    live.is_cancelled = not live.ended.is_set()
    status = f"Stopped at {format_clock(run.reached_s)} of {format_clock(run.clip.duration_s)}."
    view = PlayerView(show_run(run, status, encode=context.encode, other=live.other), enable_run())
    if live.requested not in (None, run.thresholds):
        view.rerun = make_ticket()
    return view


def finish_run(window: Window) -> PlayerView:
    """Enable Run after a run has ended, unless the next run has started; the ended run can be re-run."""
    if window.live is None or not window.live.ended.is_set():
        return PlayerView()
    return enable_run()

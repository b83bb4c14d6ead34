"""Exact re-runs of the displayed run with new thresholds.

A window numbers its requests, and only the latest one is served. A re-run for an older request ends at its next frame
and shows nothing. Once idle, the sliders, lanes, scores and status line therefore describe the same run.
"""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial

from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace, make_ticket
from stepscope.app.core.plan import StreamPlan
from stepscope.app.core.run import Run
from stepscope.app.formatting import as_sentence
from stepscope.app.player.branches import can_record, make_recording
from stepscope.app.player.commands import ThresholdRequest
from stepscope.app.player.views import PlayerView, show_rerunning, show_run, show_status
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import Thresholds, format_thresholds, read_threshold
from stepscope.engine.errors import EngineError
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, check_probs, is_decision
from stepscope.engine.replay import Recording


def request_thresholds(context: AppContext, window: Window, asked: ThresholdRequest) -> PlayerView:
    """Store the thresholds that a window requests; ``rerun`` applies them once the model is free."""
    try:
        requested = Thresholds(
            speak=read_threshold(asked.speak, "speak"), update=read_threshold(asked.update, "update")
        )
    except ValueError as error:
        return show_status(as_sentence(error), is_problem=True)
    live = window.live
    if live is None:
        text = "There is no run to apply thresholds to: press Run."
        return show_status(text, is_problem=True) if asked.has_run else PlayerView()
    if asked.ticket <= live.ticket:
        return PlayerView()
    live.requested, live.ticket = requested, asked.ticket
    if live.run is None or not live.ended.is_set():
        return PlayerView(rerun=make_ticket())  # it waits until the queued or streaming run is shown
    if live.run.model_digest != context.checkpoint.digest:
        problem = "this run was made with a different checkpoint"
        return _refuse(context, live, live.run, problem)
    if live.run.branch is not None and requested != live.run.thresholds:
        problem = "this run is a branch: change its thresholds in the tab What if"
        return _refuse(context, live, live.run, problem)
    if requested == live.run.thresholds:
        return show_status(f"The run already has these thresholds: {_words(live.run, requested)}.")
    waiting = f"Waiting to run again with {_words(live.run, requested)}."
    return PlayerView(show_status(waiting), rerun=make_ticket())


def rerun(context: AppContext, window: Window) -> Generator[PlayerView]:
    """Re-run the displayed run with the requested thresholds, up to its last frame.

    Yields an empty view if the run already has them, and once newer thresholds are requested or the video changes.
    """
    live = window.live
    if live is None or live.run is None or live.requested in (None, live.run.thresholds):
        yield PlayerView()
        return
    run, requested = live.run, live.requested
    try:
        began, pace = time.perf_counter(), Pace(UPDATE_INTERVAL_S, due_at_once=False)
        again, recording, steps = _start(context, live, run, requested)
        outputs: list[FrameOutput] = []
        with closing(steps):
            for output in map(partial(check_probs, decides_at=again.config.decides_at), steps):
                if not _is_current(live, requested):
                    break
                outputs.append(output)
                if pace.is_due():
                    yield show_rerunning(run, len(outputs), f"Running again with {_words(run, requested)}")
    except (EngineError, ValueError) as error:
        yield _refuse(context, live, run, str(error))
        return
    if not _is_current(live, requested):
        yield PlayerView()
        return
    wall_s = time.perf_counter() - began
    live.run = replace(again, outputs=tuple(outputs), name="", kept_as="", live=None, settings=context.settings)
    live.recording = recording
    context.recordings.keep(live)
    context.recent.keep_run(live.run)
    status = (
        f"Done: the same run with {_words(run, requested)}, {format_count(len(outputs), 'frame')} in {wall_s:.1f} s"
        f"{live.run.describe_lower_run(live.other)}."
    )
    if live.run.is_untrained and not any(map(is_decision, outputs)):
        status += f" {context.untrained_silence}"
    yield show_run(live.run, status, encode=context.encode, other=live.other, answers=live.ticket)


def _words(run: Run, thresholds: Thresholds) -> str:
    return format_thresholds(thresholds.speak, thresholds.update, run.config.policy)


def _is_current(live: LiveRun, requested: Thresholds) -> bool:
    return not live.is_cancelled and live.requested == requested


def _start(
    context: AppContext, live: LiveRun, run: Run, requested: Thresholds
) -> tuple[Run, Recording | None, Generator[FrameOutput]]:
    """Return the run with its new settings, its recording if one is kept, and the generator of its outputs."""
    config = replace(run.config, speak_threshold=requested.speak, update_threshold=requested.update)
    again = replace(run, config=config, outputs=())
    if live.recording is not None:
        recording = live.recording.at(speak_threshold=requested.speak, update_threshold=requested.update)
        return again, recording, recording.run()
    if can_record(context, run):
        recording = make_recording(context, run, config)
        return again, recording, recording.run()
    plan = StreamPlan(clip=run.clip, task=run.task, config=config, num_frames=len(run.outputs))
    return again, None, context.stream(plan)


def _refuse(context: AppContext, live: LiveRun, run: Run, problem: str) -> PlayerView:
    """Show why the run keeps its thresholds, and reset the display to them."""
    live.requested = None
    status = f"{as_sentence(problem)} It keeps {run.config.thresholds_text}; press Run to run the video again."
    return show_run(run, status, encode=context.encode, is_problem=True, other=live.other, answers=live.ticket)

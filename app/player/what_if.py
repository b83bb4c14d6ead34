"""*What if*: the events of its panel, which make or show branches of the displayed run; see ``app.player.branches``."""

from dataclasses import replace
from typing import Any

from stepscope.app.core.run import Run
from stepscope.app.formatting import as_sentence
from stepscope.app.player.branches import name_branch, plan_branch
from stepscope.app.player.commands import BranchRequest
from stepscope.app.player.opening import cancel_run, show_running_buttons
from stepscope.app.player.views import PlayerView, show_run, show_status
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.replay import Recording


def queue_branch(context: AppContext, window: Window, asked: BranchRequest) -> PlayerView:
    """Plan a branch; show it without a run if it is kept and not new. Without changes, the run itself is shown."""
    try:
        live, shown = window.find_finished("change")
        root = shown.branch.root if shown.branch is not None else shown
        recording = _find_recording(live, root)
        if not asked.changes.strip():
            return _show(context, root, "The run itself, without changes.", recording)
        if asked.beside is not None:
            below = _find(context, root, asked.beside) or root
        else:  # a branch is below the one whose changes it has, too
            below = shown if _extends(asked.changes, shown) else root
        plan = plan_branch(context, root, asked.changes, beside=below, recording=recording)
        kept = None if asked.is_new else _find(context, root, plan.changes)
    except ValueError as error:
        return show_status(as_sentence(error), is_problem=True)
    if kept is not None and kept.branch is not None and kept.is_finished:
        plan.beside = below = replace(below, letter="A")
        status = f"{kept.branch.name}{kept.describe_lower_run(below)}."
        return _show(context, kept, status, None, other=below, branch=plan)
    status = context.model_use.describe_wait()
    return PlayerView(show_status(status), show_running_buttons(LiveRun(run=root, branch=plan)))


def _extends(changes: str, shown: Run) -> bool:
    return shown.branch is not None and changes.strip().startswith(f"{shown.branch.changes}\n")


def _find_recording(live: LiveRun, root: Run) -> Recording | None:
    """Return the recording of a plain run, if the window has kept it."""
    recording = live.recording if live.branch is None else live.branch.recording
    return recording if recording is not None and tuple(recording.outputs) == root.outputs else None


def _find(context: AppContext, root: Run, changes: str) -> Run | None:
    return context.recent.find_run(name_branch(root, changes).digest, root.clip) if changes else None


def _show(context: AppContext, run: Run, status: str, recording: Recording | None, **shown: Any) -> PlayerView:
    """Show a run that is kept, in place of the displayed one."""
    now = LiveRun.finished(run, other=shown.get("other"), recording=recording)
    now.branch = shown.get("branch")
    view = show_run(run, status, encode=context.encode, other=now.other)
    context.recordings.keep(now)
    return PlayerView(view, cancel_run(), live=now)

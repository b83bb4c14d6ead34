"""Branches of a finished run, *what if*: their changes, text of a file of ``stepscope run --branch``, and their words.

A branch of a branch has one list of changes too, that of both, so that a file or a link makes it of the plain run.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace
from stepscope.app.core.plan import FRAMES_PER_PASS, StreamPlan, read_features
from stepscope.app.core.run import Branch, Run, can_score
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock
from stepscope.app.player.views import RunView, show_rerunning
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, PlannedBranch
from stepscope.app.window.reasons import explain_unrepeatable
from stepscope.engine.control.branch_files import make_branch, parse_branch
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.task import Task
from stepscope.engine.io.files import replace_surrogates, strip_text
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.engine.replay import Recording

MAX_CHANGES: Final = 20_000
"""Most characters of the changes of a branch."""
MAX_NAME: Final = 300
MAX_RECORDED_VALUES = 2**26
"""Maximum frame-feature values in a recording, 256 MB; without a recording, re-runs encode the video again."""


def can_record(context: AppContext, run: Run) -> bool:
    """Return whether the frame features of a run are in this process, and small enough for a recording."""
    if context.remote is not None:
        return False
    model = context.checkpoint.model
    return run.clip.num_frames * model.count_frame_tokens(*run.clip.size) * model.feature_dim <= MAX_RECORDED_VALUES


def plan_branch(context: AppContext, run: Run, changes: str, **planned: Any) -> PlannedBranch:
    """Return the plan of a branch of a plain run; ``planned`` are further fields of it.

    Raises ``ValueError`` with one sentence if the run cannot be made again here, or the changes are invalid.
    """
    text = strip_text(replace_surrogates(changes))
    if len(text) > MAX_CHANGES:
        raise ValueError(f"the changes have more than {MAX_CHANGES} characters; shorten them")
    if why := explain_unrepeatable(run, context.checkpoint.digest):
        raise ValueError(why)
    if not run.clip.has_file or not can_record(context, run):
        raise ValueError("the frames of this video are not in memory here; stepscope run --branch makes its branches")
    if run.outputs:
        _read(run, text, run.outputs)
    return PlannedBranch(changes=text, **planned)


def name_branch(root: Run, changes: str) -> Run:
    """Return the branch of a run with some changes as far as its digest needs it."""
    return replace(root, branch=Branch(root=root, changes=strip_text(changes)))


def begin_branch(context: AppContext, live: LiveRun, plan: PlannedBranch) -> Generator[RunView]:
    """Make the run of ``live`` again, unless its recording is kept, and replace both by the branch, yet to stream.

    Yields the progress. Raises as ``Recording.run`` and ``plan_branch``.
    """
    root = live.run
    assert root is not None
    recording = plan.recording
    if recording is None:
        plan_branch(context, root, plan.changes)
        num_frames = len(root.outputs) or None
        stream = StreamPlan(
            clip=root.clip,
            task=root.task,
            config=root.config,
            num_frames=num_frames,
            max_duration_s=context.max_duration_s,
        )
        features = read_features(context.checkpoint, stream)
        recording = Recording(context.checkpoint, features, task=root.task, config=root.config)
        pace = Pace(UPDATE_INTERVAL_S, due_at_once=False)
        for number, _ in enumerate(recording.run(), start=1):
            if live.is_cancelled:
                return
            if pace.is_due():
                yield show_rerunning(root, number, "Making the run again, which the branch differs from")
    if live.linked_digest == root.digest:
        live.linked_digest = None
    outputs = tuple(recording.outputs)
    root = replace(root, outputs=outputs, is_finished=True)
    change, content = _read(root, plan.changes, outputs)
    if change.config is not None:
        model = context.checkpoint.model
        lengths = {"lookahead": FRAMES_PER_PASS, "max_seq_len": model.max_context}
        bounded = {name: min(getattr(change.config, name), limit) for name, limit in lengths.items()}
        change = replace(change, config=replace(change.config, **bounded))
    plan.recording, live.recording = recording, recording.branch(change)
    branch = Branch(root=root, changes=plan.changes, name=describe_changes(content, outputs, root.config.fps))
    task = change.change_task(root.task)
    live.other = replace(plan.beside or root, letter="A")
    live.run = replace(
        root,
        clip=_fit_reference(root.clip, task),
        task=task,
        typed_task=None,
        config=change.config or root.config,
        outputs=(),
        name="",
        kept_as="",
        letter="B",
        live=None,
        kept=None,
        is_finished=False,
        settings=context.settings,
        branch=branch,
    )


def _read(root: Run, text: str, outputs: Sequence[FrameOutput]) -> tuple[Intervention, list[Mapping[str, Any]]]:
    """Return the intervention of changes, and the list of them."""
    content = parse_branch(text)
    run: dict[str, Any] = {"task": root.task, "config": root.config, "num_frames": len(outputs)}
    return make_branch(content, **run, outputs=outputs), content


def _fit_reference(clip: Clip, task: Task) -> Clip:
    """Return a clip whose reference has the steps of a task in its order and words; without one if the ids differ."""
    sample = clip.sample
    if sample is None or can_score(sample, task):
        return clip
    is_same = {step.id for step in sample.steps} == {step.id for step in task.steps}
    return replace(clip, sample=replace(sample, steps=task.steps) if is_same else None)


def describe_changes(content: Sequence[Mapping[str, Any]], outputs: Sequence[FrameOutput], fps: float) -> str:
    """Return valid changes in words, such as ``S2 kept open from 0:15.0``."""
    words = "; ".join(part for change in content for part in _describe(change, outputs, fps))
    return words if len(words) <= MAX_NAME else f"{words[: MAX_NAME - 1]}…"


def _describe(change: Mapping[str, Any], outputs: Sequence[FrameOutput], fps: float) -> list[str]:
    time_s = change.get("time", 0)
    at = format_clock(time_s, digits=1)
    since, parts = f" from {at}" if time_s else "", list[str]()
    for key, value in change.items():
        if key == "state":
            parts += [f"{step} {state.replace('_', ' ')} from {at}" for step, state in value.items()]
        elif key == "updates":
            written = ", ".join(value) or _describe_deleted(outputs[frame_at(time_s, fps)].updates)
            parts.append(f"{written} {'at' if value or written == 'no update' else 'from'} {at}")
        elif key == "message":
            parts.append(f"silent at {at}" if value is None else f"says “{value}” at {at}")
        elif key == "ask":
            parts.append(f"asked “{value}” at {at}")
        elif key == "freeze":
            parts.append(f"picture frozen from {at} to {format_clock(value, digits=1)}")
        elif key == "swap":
            parts.append(f"pictures of {at} and {format_clock(value, digits=1)} swapped")
        elif key == "goal":
            parts.append(f"goal “{value}”{since}")
        elif key == "steps":
            parts.append(f"steps {', '.join(value)}{since}")
        elif key == "settings":
            parts += [f"{name.replace('_', ' ')} {setting}{since}" for name, setting in value.items()]
        elif key == "refresh" and value and "state" not in change:
            parts.append(f"context begins again at {at}")
    return [" ".join(part.split()) for part in parts]


def _describe_deleted(updates: Sequence[str]) -> str:
    """Return what deleting the updates of a frame does, before a time."""
    words = {"start": "{} not started", "complete": "{} kept open"}
    pairs = (update.split("->") for update in updates if update.count("->") == 1)
    return " and ".join(words[change].format(step) for step, change in pairs if change in words) or "no update"

"""Branches of a finished run, *what if*: their changes, text of a file of ``stepscope run --branch``, and their words.

A branch of a branch has one list of changes too, that of both, so that a file or a link makes it of the plain run.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace
from stepscope.app.core.plan import FRAMES_PER_PASS, read_features
from stepscope.app.core.run import Branch, Run, can_score
from stepscope.app.core.videos import Clip
from stepscope.app.formatting import format_clock
from stepscope.app.player.views import PlayerView, show_rerunning
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, PlannedBranch
from stepscope.app.window.reasons import describe_update, explain_unrepeatable
from stepscope.engine.config import StreamConfig
from stepscope.engine.config_files import parse_yaml
from stepscope.engine.control.branch_files import BRANCH_KEYS, make_branch
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.task import Task
from stepscope.engine.io.files import replace_surrogates, strip_text
from stepscope.engine.records import frame_at
from stepscope.engine.replay import Recording
from stepscope.eval.reports.mistakes import name_steps

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


def make_recording(context: AppContext, run: Run, config: StreamConfig | None = None) -> Recording:
    """Return a recording of a plain run, or of one with other settings, which has yet to run.

    The outputs of the run serve as drafts. Raises ``ValueError`` if it cannot be made here.
    """
    _check_repeatable(context, run)
    features = read_features(context.checkpoint, context.plan_run(run, len(run.outputs) or None))
    return Recording(context.checkpoint, features, task=run.task, config=config or run.config, known=run.outputs)


def _check_repeatable(context: AppContext, run: Run) -> None:
    if why := explain_unrepeatable(run, context.checkpoint.digest):
        raise ValueError(why)
    if not run.clip.has_file or not can_record(context, run):
        raise ValueError("the frames of this video are not in memory here; the commands run and explain can change it")


def plan_branch(context: AppContext, run: Run, changes: str, **planned: Any) -> PlannedBranch:
    """Return the plan of a branch of a plain run; ``planned`` are further fields of it.

    Raises ``ValueError`` with one sentence if the run cannot be made again here, or the changes are invalid.
    """
    text = strip_text(replace_surrogates(changes))
    if len(text) > MAX_CHANGES:
        raise ValueError(f"the changes have more than {MAX_CHANGES} characters; shorten them")
    _check_repeatable(context, run)
    if run.outputs:
        _read(run, text, len(run.outputs))
    return PlannedBranch(changes=text, **planned)


def name_branch(root: Run, changes: str) -> Run:
    """Return the branch of a run with some changes as far as its digest needs it."""
    return replace(root, branch=Branch(root=root, changes=strip_text(changes)))


def begin_branch(context: AppContext, live: LiveRun, plan: PlannedBranch) -> Generator[PlayerView]:
    """Make the run of ``live`` again, unless its recording is kept, and replace both by the branch, yet to stream.

    Yields the progress. Raises as ``Recording.run`` and ``plan_branch``.
    """
    root = live.run
    assert root is not None
    recording = plan.recording
    if recording is None:
        plan_branch(context, root, plan.changes)  # that of a link was not checked yet
        recording = make_recording(context, root)
        yield from _run(recording, live, "Making the run again, which the branch differs from")
        if live.is_cancelled:
            return
    if live.linked_digest == root.digest:
        live.linked_digest = None
    outputs = tuple(recording.outputs)
    root = replace(root, outputs=outputs, is_finished=True)
    change, content = _read(root, plan.changes, len(outputs))
    if change.config is not None:
        model = context.checkpoint.model
        lengths = {"lookahead": FRAMES_PER_PASS, "max_seq_len": model.max_context}
        bounded = {name: min(getattr(change.config, name), limit) for name, limit in lengths.items()}
        change = replace(change, config=replace(change.config, **bounded))
    if (earlier := recording.branch_before(change)) is not None:
        yield from _run(earlier, live, "Running with the changes before its settings or its task")
        if live.is_cancelled:
            return
    plan.recording, live.recording = recording, recording.branch(change, earlier=earlier)
    task, config = change.change_task(root.task), change.config or root.config
    branch = Branch(root=root, changes=plan.changes, name=describe_changes(content, root, name_steps(task)))
    live.other = replace(plan.beside or root, letter="A")
    again = root.before_first_frame(task=task, settings=context.settings)
    clip = _fit_reference(root.clip, task)
    live.run = replace(again, clip=clip, config=config, typed_task=None, letter="B", kept=None, branch=branch)


def _run(recording: Recording, live: LiveRun, words: str) -> Generator[PlayerView]:
    """Run a recording of the run of ``live`` and yield the progress, until it is cancelled."""
    assert live.run is not None
    pace = Pace(UPDATE_INTERVAL_S, due_at_once=False)
    for number, _ in enumerate(recording.run(), start=1):
        if live.is_cancelled:
            return
        if pace.is_due():
            yield show_rerunning(live.run, number, words)


def _read(root: Run, text: str, num_frames: int) -> tuple[Intervention, list[Mapping[str, Any]]]:
    """Return the intervention of changes, and the list of them."""
    content = parse_yaml(text, name="the changes", keys=BRANCH_KEYS)
    return make_branch(content, task=root.task, config=root.config, num_frames=num_frames), content


def _fit_reference(clip: Clip, task: Task) -> Clip:
    """Return a clip whose reference has the steps of a task in its order and words; without one if the ids differ."""
    sample = clip.sample
    if sample is None or can_score(sample, task):
        return clip
    is_same = {step.id for step in sample.steps} == {step.id for step in task.steps}
    return replace(clip, sample=replace(sample, steps=task.steps) if is_same else None)


_WORDS: Final = {
    "message": "says “{value}” at {at}",
    "ask": "asked “{value}” at {at}",
    "freeze": "picture frozen from {at} to {value:g} s",
    "swap": "pictures of {at} and {value:g} s swapped",
    "goal": "goal “{value}” from {at}",
}


def describe_changes(content: Sequence[Mapping[str, Any]], root: Run, names: Mapping[str, str]) -> str:
    """Return valid changes in words, with the ``names`` of steps, such as ``started “mount the block” at 0:15.0``."""
    parts = list[str]()
    for change in content:
        time_s = change.get("time", 0)
        at = format_clock(time_s, digits=1)
        for key, value in change.items():
            if key == "state":
                parts += [f"{names.get(id, id)} {state.replace('_', ' ')} from {at}" for id, state in value.items()]
            elif key == "settings":
                parts += [f"{name.replace('_', ' ')} {setting} from {at}" for name, setting in value.items()]
            elif key == "steps":
                parts.append(f"steps {', '.join(value)} from {at}")
            elif key == "updates":
                updates = value or root.outputs[frame_at(time_s, root.config.fps)].updates
                told = [describe_update(update, names, is_done=bool(value)) for update in updates]
                parts.append(f"{' and '.join(told) or 'no update'} at {at}")
            elif key == "message" and value is None:
                parts.append(f"silent at {at}")
            elif key in _WORDS:
                parts.append(_WORDS[key].format(value=value, at=at))
    words = " ".join("; ".join(parts).split()) or "context begins again"
    return words if len(words) <= MAX_NAME else f"{words[: MAX_NAME - 1]}…"

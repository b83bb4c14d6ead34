"""Uploads: a video, its reference, and result files of other systems, each checked first, then shown like a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final

import gradio as gr

from stepscope.app.controls.run_inputs import read_rule
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.references import (
    MAX_RESULT_BYTES,
    add_reference,
    check_outputs,
    check_size,
    describe_reference,
    find_max_frames,
)
from stepscope.app.core.run import Run, read_task
from stepscope.app.core.videos import Clip, read_upload
from stepscope.app.formatting import as_sentence, format_clock, name_files
from stepscope.app.player import views
from stepscope.app.player.handlers import set_reference
from stepscope.app.player.opening import cancel_run
from stepscope.app.player.proposals import can_propose
from stepscope.app.window.context import AppContext
from stepscope.app.window.landing import FIRST, STAY
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import digest_file
from stepscope.engine.model.files.bundled import ASSETS
from stepscope.engine.plurals import format_count
from stepscope.eval.data.samples import Sample, Turn, build_task
from stepscope.eval.runs.folder import read_signal_specs, versions
from stepscope.eval.runs.imports.import_results import list_missing, read_result
from stepscope.eval.runs.imports.system_output import SignalRule

EXAMPLE: Final = (ASSETS / "demo" / "house-hard-permuted.mp4", ASSETS / "demo" / "val.json")


@dataclass(frozen=True, kw_only=True, eq=False)
class Accepted:
    """A valid upload. Every check creates a new object, also for the same file, so that Gradio reports a change."""

    clip: Clip
    video: Path | None


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedFile:
    """A valid reference or result file. Every check creates a new object, so that Gradio reports a change."""

    path: Path | None
    """The file; None after it was removed."""
    rule: SignalRule | None = None
    """The rule by which a signal of results decides; None for that of the file."""


def check_upload(context: AppContext, window: Window, upload: str | None) -> Updates:
    """Check an upload. Until it is accepted, the open video stays open and its run continues.

    A refusal is shown below the upload box, since a run uses the status line, and as a warning: what is typed next
    would be for the video that stays open.
    """
    try:
        if upload is None:
            raise ValueError("there is no file; choose one")
        clip = read_upload(Path(upload), fps=context.config.fps, max_duration_s=context.max_duration_s)
        video = context.find_video(clip)
    except (EngineError, ValueError) as error:
        before = window.clip
        kept = f" {before.name} stays open." if before is not None else ""
        gr.Warning(escape(f"{as_sentence(error)}{kept}"))
        box = str(before.path) if before is not None and before.content_digest else None
        return Updates(upload=box, problem=views.status_line(f"{as_sentence(error)}{kept}", is_problem=True))
    return Updates(problem="", accepted=Accepted(clip=clip, video=video))


def show_upload(context: AppContext, accepted: Accepted) -> views.PlayerView:
    """Show an accepted upload. The boxes of its task are the script's: they may be typed in meanwhile."""
    clip = accepted.clip
    view = views.PlayerView(clip=clip, video=accepted.video and str(accepted.video))
    converted = f" Shown as a converted copy, because {clip.copy_reason}." if clip.copy_reason else ""
    if clip.cut_s is not None:
        converted += f" The file is cut off at {clip.cut_s:.2f} s: only that part can be read."
    elif clip.damaged_s is not None:
        damaged = format_clock(clip.damaged_s, digits=1)
        converted += f" The file is damaged at {damaged}: pictures near it and after it may be missing."
    has_steps = context.config.policy.has_updates and not can_propose(context)
    cure = f"Enter its goal{' and steps' if has_steps else ''}, then press Run."
    status = f"{clip.name}, {format_clock(clip.duration_s)}.{converted} {cure}"
    context.recent.keep_clip(clip)
    shown = views.show_nothing(f"{status} {context.warn_of_model(clip)}".strip(), clip=clip)
    return views.PlayerView(view, shown, cancel_run())


def show_example(context: AppContext) -> views.PlayerView:
    """Show a bundled video as an upload with its reference, which fills in goal, steps and user turns."""
    video, manifest = (context.copies.share(path) for path in EXAMPLE)
    clip, sample = add_reference(
        read_upload(video, fps=context.config.fps, max_duration_s=context.max_duration_s), manifest
    )
    context.recent.keep_clip(clip)
    view = views.PlayerView(clip=clip, video=str(video), upload=str(video), **views.task_boxes(sample))
    status, is_mismatch = describe_reference(clip, sample, manifest)
    shown = views.show_nothing(f"An example of an upload: {status}", clip=clip, is_problem=is_mismatch)
    opened: Any = {"reference": str(manifest), "reference_panel": gr.Accordion(open=True), "problem": ""}
    return views.PlayerView(view, shown, cancel_run(), **opened)


def check_reference(window: Window, reference: str | None) -> Updates:
    """Check a reference for the open upload.

    A refused reference cancels no run and changes nothing else.
    """
    clip = window.clip
    is_upload = clip is not None and bool(clip.content_digest)
    if reference is None and not is_upload:
        return Updates(problem="")
    try:
        if clip is None or not is_upload:
            raise ValueError("a reference belongs to an upload: upload a video first")
        if reference is not None:
            add_reference(clip, Path(reference))
    except (ValueError, OSError) as error:
        return Updates(problem=views.status_line(as_sentence(error), is_problem=True))
    return Updates(problem="", checked=CheckedFile(path=None if reference is None else Path(reference)))


def clear_box(window: Window) -> Any:
    """Return the line below the upload box after it was cleared; the open video stays open."""
    before = window.clip
    if before is None or not before.content_digest:
        return gr.skip()
    return views.status_line(f"{before.name} stays open until another video is chosen or uploaded.")


_NO_TASK: Final = Task()


def check_result(
    window: Window,
    result: str | None,
    signal: str | None = None,
    policy: str = "above",
    threshold: str | None = None,
) -> Updates:
    """Check a result file for the open upload, with a rule where it has a threshold; a file with signals asks for one.

    A refused file or rule cancels no run and changes nothing else.
    """
    clip = window.clip
    if result is None:
        return Updates(problem="", checked=CheckedFile(path=None), rule_panel=gr.Column(visible=False))
    try:
        if clip is None or not clip.content_digest:
            raise ValueError("a result file belongs to an upload: upload its video first")
        rule = read_rule(signal, policy, threshold)
        specs = read_signal_specs(_read(clip, Path(result), settings={}, rule=rule)[0].settings)
    except (ValueError, OSError) as error:
        problem = as_sentence(name_files(str(error), [Path(result)]))
        return Updates(problem=views.status_line(problem, is_problem=True))
    names = [spec.name for spec in specs]
    chosen = signal if signal in names else next((spec.name for spec in specs if spec.decides), None)
    return Updates(
        problem="",
        checked=CheckedFile(path=Path(result), rule=rule),
        rule_panel=gr.Column(visible=bool(specs)),
        signal=gr.Dropdown(choices=names, value=chosen),
    )


def show_result(
    context: AppContext, window: Window, checked: CheckedFile | None, *boxes: str | None
) -> views.PlayerView:
    """Show an accepted result file as the run of the upload; the status names the values that it does not hold.

    ``boxes`` are the typed goal, steps and user turns, which stay, and are the task of a run without a reference.
    """
    clip = window.clip
    if checked is None or clip is None or not clip.content_digest:
        return views.PlayerView()  # another video was opened
    if checked.path is None:
        status = f"{clip.name}, {format_clock(clip.duration_s)}, without results. Press Run."
        return views.PlayerView(views.show_nothing(status, clip=clip), cancel_run())
    settings = {"versions": versions(), **context.encoder}
    run, problems, warning = _read(
        clip, checked.path, settings=settings, rule=checked.rule, typed=_read_boxes(clip, *boxes)
    )
    context.recent.keep_run(run)
    notes = [f"{clip.name}, {format_clock(clip.duration_s)}, with the results of {checked.path.name}."]
    notes += map(as_sentence, list_missing(run.settings))
    notes += [as_sentence(name_files(problem, [checked.path])) for problem in problems[:1]]
    notes += [f"{format_count(len(problems) - 1, 'more line')} of the file cannot be read."] if problems[1:] else []
    notes += [as_sentence(warning)] if warning else []
    notes += ["Add a reference to score it."] if clip.sample is None else []
    given = {} if clip.sample is None else {name: text for name, text in views.task_boxes(run).items() if text}
    destination = STAY if clip.sample is None else FIRST
    shown = views.show_run(run, " ".join(notes), encode=context.encode, destination=destination)
    return views.PlayerView(shown, cancel_run(), clip=clip, live=LiveRun.finished(run), **given)


def show_reference(
    context: AppContext,
    window: Window,
    checked: CheckedFile,
    result: CheckedFile | None,
    *boxes: str | None,
) -> views.PlayerView:
    """Show the upload with an accepted reference, and the open result file scored by it."""
    path = None if checked.path is None else str(checked.path)
    view = set_reference(context, window, path, *boxes)
    if result is None or result.path is None or not isinstance(view.clip, Clip):
        return view
    try:
        shown = show_result(context, Window(clip=view.clip), result, *boxes)
    except (ValueError, OSError) as error:
        return views.PlayerView(view, views.show_status(as_sentence(error), is_problem=True))
    given = {name: value for name, value in vars(view).items() if name in ("clip", *views.task_boxes(_NO_TASK))}
    return views.PlayerView(shown, **given)


def _read_boxes(clip: Clip, goal: str | None = None, steps: str | None = None, user_turns: str | None = None) -> Task:
    """Return the typed task; an empty one where a line of it is invalid, which Run refuses."""
    try:
        return read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
    except ValueError:
        return _NO_TASK


def _read(
    clip: Clip, path: Path, *, settings: Mapping[str, Any], rule: SignalRule | None, typed: Task = _NO_TASK
) -> tuple[Run, tuple[str, ...], str]:
    """Return the results of a file as a run, its damaged lines, and a warning or nothing.

    Raises ``ValueError`` with file, field and cure.
    """
    check_size(path, limit=MAX_RESULT_BYTES)
    sample = clip.sample or _without_reference(clip, typed)
    # a reference may have a turn hours after the end of the video
    named = replace(sample, video_path=Path(clip.name), num_frames=min(sample.num_frames, find_max_frames(clip)))
    found = read_result(path, named, rule=rule)
    check_outputs(found.outputs)
    systems = ", ".join(found.settings["missing"])
    run = Run(
        clip=clip,
        task=build_task(sample),
        config=StreamConfig(fps=clip.fps),
        model_digest=digest_file(path)[:16],
        outputs=found.outputs,
        is_finished=True,
        settings={**settings, **found.settings, "checkpoint": f"{systems} file {path.name}", "imported": [path.name]},
    )
    return run, found.problems, found.warning


def _without_reference(clip: Clip, typed: Task) -> Sample:
    return Sample(
        video_id=clip.video_id,
        video_path=None,
        fps=clip.fps,
        num_frames=clip.num_frames,
        goal=typed.goal,
        steps=typed.steps,
        turns=tuple(Turn(time_s=turn.time_s, role="user", text=turn.text) for turn in typed.user_turns),
        initial_state={},
        has_reference=False,
    )

"""Uploads of videos and references: they are checked first, and replace the open video only if they are valid."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import gradio as gr

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.references import add_reference, describe_reference
from stepscope.app.core.videos import Clip, read_upload
from stepscope.app.formatting import as_sentence, format_clock
from stepscope.app.opening.clips import cancel_run
from stepscope.app.web.views import ClipView, PlayerView, show_nothing, status_line, task_boxes
from stepscope.engine.errors import EngineError
from stepscope.engine.model.files.bundled import ASSETS

EXAMPLE: Final = (ASSETS / "demo" / "house-hard-permuted.mp4", ASSETS / "demo" / "val.json")
"""Video and reference of the example of an upload."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Accepted:
    """A valid upload. Every check creates a new object, also for the same file, so that Gradio reports a change."""

    clip: Clip
    video: Path
    """The browser-playable file."""


class UploadCheck(NamedTuple):
    """Outputs of the check of an upload."""

    accepted: Any
    status: Any
    upload: Any
    problem: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedReference:
    """A valid reference. Every check creates a new object, also for the same file."""

    path: str | None
    """The file; None to remove the reference."""


class ReferenceCheck(NamedTuple):
    """Outputs of the check of a reference."""

    checked: Any
    status: Any
    problem: Any


def check_upload(context: AppContext, live: LiveRun | None, before: Clip | None, upload: str | None) -> UploadCheck:
    """Check an upload. Until it is accepted, the open video stays open and its run continues.

    A refusal is shown in the status line, or below the upload box while a run uses the status line.
    """
    try:
        if upload is None:
            raise ValueError("there is no file; choose one")
        clip = read_upload(Path(upload), fps=context.config.fps, max_duration_s=context.max_duration_s)
        video = context.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        kept = f" {before.name} stays open." if before is not None else ""
        problem = f"{as_sentence(error)}{kept}"
        is_busy = is_running(live)
        box = str(before.path) if before is not None and before.content_digest else None
        status = gr.skip() if is_busy else status_line(problem, is_problem=True)
        return UploadCheck(accepted=gr.skip(), status=status, upload=box, problem=f"⚠ {problem}" if is_busy else "")
    return UploadCheck(accepted=Accepted(clip=clip, video=video), status=gr.skip(), upload=gr.skip(), problem="")


def show_upload(context: AppContext, live: LiveRun | None, before: Clip | None, accepted: Accepted) -> PlayerView:
    """Show an accepted upload.

    The task of the previous bundled video is cleared; a task that the user typed is kept.
    """
    task, clip = _task_after(before), accepted.clip
    view = ClipView(
        clip=clip, video=str(accepted.video), chosen=None, upload=gr.skip(), goal=task, steps=task, user_turns=task
    )
    converted = f" Shown as a converted copy, because {clip.copy_reason}." if clip.copy_reason else ""
    if clip.cut_s is not None:
        converted += f" The file is cut off at {format_clock(clip.cut_s)}: only that part can be read."
    elif clip.damaged_s is not None:
        damaged = format_clock(clip.damaged_s, digits=1)
        converted += f" The file is damaged at {damaged}: pictures near it and after it may be missing."
    status = f"{clip.name}, {format_clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."
    context.recent.keep_clip(clip)
    run_view = show_nothing(f"{status} {context.model_warning}".strip(), clip=clip)
    return PlayerView(clip=view, run=run_view, buttons=cancel_run(live))


class ExampleView(NamedTuple):
    """Outputs of the example of an upload."""

    player: PlayerView
    reference: Any
    panel: Any
    problem: Any


def show_example(context: AppContext, live: LiveRun | None) -> ExampleView:
    """Show a bundled video as an upload with its reference, which fills in goal, steps and user turns."""
    video, manifest = (context.copies.share(path) for path in EXAMPLE)
    clip, sample = add_reference(
        read_upload(video, fps=context.config.fps, max_duration_s=context.max_duration_s), manifest
    )
    context.recent.keep_clip(clip)
    view = ClipView(clip=clip, video=str(video), chosen=None, upload=str(video), **task_boxes(sample))
    status, is_mismatch = describe_reference(clip, sample, manifest)
    run_view = show_nothing(f"An example of an upload: {status}", clip=clip, is_problem=is_mismatch)
    return ExampleView(
        player=PlayerView(clip=view, run=run_view, buttons=cancel_run(live)),
        reference=str(manifest),
        panel=gr.Accordion(open=True),
        problem="",
    )


def check_reference(live: LiveRun | None, clip: Clip | None, reference: str | None) -> ReferenceCheck:
    """Check a reference for the open upload. A refused reference cancels no run and changes nothing else."""
    is_upload = clip is not None and bool(clip.content_digest)
    if reference is None and not is_upload:
        return ReferenceCheck(checked=gr.skip(), status=gr.skip(), problem="")
    try:
        if clip is None or not is_upload:
            raise ValueError("a reference belongs to an upload: upload a video first")
        if reference is not None:
            add_reference(clip, Path(reference))
    except (ValueError, OSError) as error:
        problem, is_busy = as_sentence(error), is_running(live)
        status = gr.skip() if is_busy else status_line(problem, is_problem=True)
        return ReferenceCheck(checked=gr.skip(), status=status, problem=f"⚠ {problem}" if is_busy else "")
    return ReferenceCheck(checked=CheckedReference(path=reference), status=gr.skip(), problem="")


def clear_box(live: LiveRun | None, before: Clip | None) -> Any:
    """Return the status line after the upload box was cleared; the open video stays open."""
    if before is None or not before.content_digest or is_running(live):
        return gr.skip()
    return status_line(f"{before.name} stays open until another video is chosen or uploaded.")


def is_running(live: LiveRun | None) -> bool:
    """Return whether a run of the window streams, which uses the status line."""
    return live is not None and live.is_started and not live.ended.is_set()


def _task_after(before: Clip | None) -> Any:
    return "" if before is not None and before.sample is not None else gr.skip()

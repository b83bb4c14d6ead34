"""Uploads, videos and references: checked first, and shown in place of what is open once they have passed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.formatting import as_sentence, format_clock
from app.player.context import AppContext
from app.player.handlers import cancel_run, set_reference
from app.player.session.live_run import LiveRun
from app.player.session.references import add_reference
from app.player.views import ClipView, Page, show_nothing, status_line
from app.videos import Clip, read_upload
from engine.errors import EngineError


@dataclass(frozen=True, kw_only=True, eq=False)
class Accepted:
    """An upload that passed the check; each check makes another one, also of the same file."""

    clip: Clip
    """The video."""
    video: Path
    """The file that a browser plays."""


class UploadCheck(NamedTuple):
    """What the check of an upload shows."""

    accepted: Any
    status: Any
    upload: Any
    problem: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedReference:
    """A reference that can be used; each check makes another one, also of the same file."""

    path: str | None
    """The file; None to go without a reference."""


class ReferenceCheck(NamedTuple):
    """What the check of a reference shows."""

    checked: Any
    status: Any
    problem: Any


def check_upload(context: AppContext, live: LiveRun | None, before: Clip | None, upload: str | None) -> UploadCheck:
    """Check an upload. What is open stays open, and a run goes on: only an accepted upload takes their place.

    A refusal is a sentence in the status line; while a run writes there, below the upload.
    """
    try:
        if upload is None:
            raise ValueError("there is no file; choose one")
        clip = read_upload(Path(upload), max_duration_s=context.max_duration_s)
        video = context.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        kept = f" {before.name} stays open." if before is not None else ""
        said = f"{as_sentence(error)}{kept}"
        is_running = _is_running(live)
        box = str(before.path) if before is not None and before.content_digest else None
        status = gr.skip() if is_running else status_line(said, is_problem=True)
        return UploadCheck(accepted=gr.skip(), status=status, upload=box, problem=f"⚠ {said}" if is_running else "")
    return UploadCheck(accepted=Accepted(clip=clip, video=video), status=gr.skip(), upload=gr.skip(), problem="")


def show_upload(context: AppContext, live: LiveRun | None, before: Clip | None, accepted: Accepted) -> Page:
    """Show an upload that was accepted: ``ClipView``, ``RunView``, ``Buttons``.

    The task of a bundled video that was there ``before`` is cleared; one that the user wrote is kept.
    """
    task, clip = _task_after(before), accepted.clip
    view = ClipView(
        clip=clip, video=str(accepted.video), chosen=None, upload=gr.skip(), goal=task, steps=task, user_turns=task
    )
    converted = "" if clip.is_browser_playable else " Shown as a converted copy, because browsers cannot play the file."
    status = f"{clip.name}, {format_clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."
    context.recent.keep_clip(clip)
    return (*view, *show_nothing(f"{status} {context.model_warning}".strip(), clip=clip), *cancel_run(live))


def check_reference(live: LiveRun | None, clip: Clip | None, reference: str | None) -> ReferenceCheck:
    """Check a reference for the upload that is open: a refused one ends no run, and what is open stays as it is."""
    is_upload = clip is not None and bool(clip.content_digest)
    if reference is None and not is_upload:
        return ReferenceCheck(checked=gr.skip(), status=gr.skip(), problem="")
    try:
        if clip is None or not is_upload:
            raise ValueError("a reference belongs to an upload: upload a video first")
        if reference is not None:
            add_reference(clip, Path(reference))
    except (ValueError, OSError) as error:
        said, is_running = as_sentence(error), _is_running(live)
        status = gr.skip() if is_running else status_line(said, is_problem=True)
        return ReferenceCheck(checked=gr.skip(), status=status, problem=f"⚠ {said}" if is_running else "")
    return ReferenceCheck(checked=CheckedReference(path=reference), status=gr.skip(), problem="")


def show_reference(context: AppContext, live: LiveRun | None, clip: Clip | None, checked: CheckedReference) -> Page:
    """Show the upload with a reference that passed the check, as ``handlers.set_reference`` does."""
    return set_reference(context, live, clip, checked.path)


def clear_box(live: LiveRun | None, before: Clip | None) -> Any:
    """Return the status line once the upload's box is emptied: what is open stays until another video comes."""
    if before is None or not before.content_digest or _is_running(live):
        return gr.skip()
    return status_line(f"{before.name} stays open until another video is chosen or uploaded.")


def _is_running(live: LiveRun | None) -> bool:
    return live is not None and live.is_started and not live.ended.is_set()


def _task_after(before: Clip | None) -> Any:
    return "" if before is not None and before.sample is not None else gr.skip()

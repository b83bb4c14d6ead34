"""Uploads: checked first, and shown in place of what is open once they have passed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.clips import Clip, read_upload
from app.handlers import Bench, end_run
from app.views import ClipView, LiveRun, Page, say, show_nothing
from app.words import clock, sentence
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


def check_upload(bench: Bench, live: LiveRun | None, before: Clip | None, upload: str | None) -> UploadCheck:
    """Check an upload. What is open stays open, and a run goes on: only an accepted upload takes their place.

    A refusal is a sentence in the status line; while a run writes there, below the upload.
    """
    try:
        if upload is None:
            raise ValueError("there is no file; choose one")
        clip = read_upload(Path(upload), max_duration_s=bench.max_duration_s)
        video = bench.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        kept = f" {before.name} stays open." if before is not None else ""
        said = f"{sentence(error)}{kept}"
        is_running = _is_running(live)
        box = str(before.path) if before is not None and before.content_digest else None
        status = gr.skip() if is_running else say(said, is_problem=True)
        return UploadCheck(accepted=gr.skip(), status=status, upload=box, problem=f"⚠ {said}" if is_running else "")
    return UploadCheck(accepted=Accepted(clip=clip, video=video), status=gr.skip(), upload=gr.skip(), problem="")


def show_upload(bench: Bench, live: LiveRun | None, before: Clip | None, accepted: Accepted) -> Page:
    """Show an upload that was accepted: ``ClipView``, ``RunView``, ``Buttons``.

    The task of a bundled video that was there ``before`` is cleared; one that the user wrote is kept.
    """
    task, clip = _task_after(before), accepted.clip
    view = ClipView(
        clip=clip, video=str(accepted.video), chosen=None, upload=gr.skip(), goal=task, steps=task, user_turns=task
    )
    converted = "" if clip.is_browser_playable else " Shown as a converted copy, because browsers cannot play the file."
    status = f"{clip.name}, {clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."
    bench.recent.keep_clip(clip)
    return (*view, *show_nothing(f"{status} {bench.limits}".strip(), clip=clip), *end_run(live))


def clear_box(live: LiveRun | None, before: Clip | None) -> Any:
    """Return the status line once the upload's box is emptied: what is open stays until another video comes."""
    if before is None or not before.content_digest or _is_running(live):
        return gr.skip()
    return say(f"{before.name} stays open until another video is chosen or uploaded.")


def _is_running(live: LiveRun | None) -> bool:
    return live is not None and live.is_started and not live.ended.is_set()


def _task_after(before: Clip | None) -> Any:
    return "" if before is not None and before.sample is not None else gr.skip()

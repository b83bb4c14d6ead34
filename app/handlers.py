"""What happens on a click: free functions from what is on the page to what shall be on it.

Each returns views, named tuples whose fields are the outputs that ``app.ui`` wires, in that order. Whatever is
wrong with a video or an entry becomes a sentence in the status line. What a window has under way is its own
``LiveRun``; nothing is global, so two windows never mix.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app.clips import Clip, Demos, read_upload
from app.display import DisplayCopies
from app.views import (
    Buttons,
    ClipView,
    LiveRun,
    Page,
    Thresholds,
    say,
    say_only,
    show_clip,
    show_nothing,
    show_run,
)
from app.words import clock, sentence
from engine.checkpoint import Checkpoint
from engine.control import Task
from engine.dialogue import parse_steps, parse_user_turn
from engine.errors import EngineError
from eval.matching import Encode

CHOOSE = "Choose a bundled video or upload one."


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all windows share; nothing of it changes."""

    checkpoint: Checkpoint
    """The model."""
    demos: Demos
    """The bundled videos."""
    copies: DisplayCopies
    """Converted videos for display."""
    encode: Encode
    """Encoder that compares what was said with the reference."""
    max_duration_s: float
    """Longest upload, in seconds."""


def choose_demo(bench: Bench, live: LiveRun | None, name: str | None) -> Page:
    """Show a bundled video and fill in its task: ``ClipView``, ``RunView``, ``Buttons``."""
    if name is None:
        return _without_clip(live, bench.demos.notice or CHOOSE, task=gr.skip())
    try:
        clip = bench.demos.find(name)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _without_clip(live, sentence(error), is_problem=True, task="")
    status = f"{clip.name}, {clock(clip.duration_s)}. Press Run. {bench.demos.notice}".strip()
    return (*show_clip(clip, video, chosen=gr.skip()), *show_nothing(status), *_ready(live))


def accept_upload(bench: Bench, live: LiveRun | None, before: Clip | None, upload: str | None) -> Page:
    """Check and show an upload, or refuse it in a sentence: ``ClipView``, ``RunView``, ``Buttons``.

    The task of a bundled video that was there ``before`` is cleared; one that the user wrote is kept.
    """
    task = "" if before is not None and before.sample is not None else gr.skip()
    if upload is None:
        return _without_clip(live, CHOOSE, task=task)
    try:
        clip = read_upload(Path(upload), max_duration_s=bench.max_duration_s)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _without_clip(live, sentence(error), is_problem=True, task=task)
    view = ClipView(clip=clip, video=str(video), chosen=None, upload=gr.skip(), goal=task, steps=task, user_turns=task)
    converted = "" if video == clip.path else " Shown as a converted copy, because browsers cannot play the file."
    status = f"{clip.name}, {clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."
    return (*view, *show_nothing(status), *_ready(live))


def open_page(bench: Bench, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]) -> Page:
    """Show the first bundled video, or what a link asks for: ``ClipView``, ``RunView``, ``Buttons``, ``Thresholds``.

    A link (see ``linkedMoment`` in the player) names a video, thresholds, a moment, which the player goes to, and a
    run, which is run again.
    """
    unchanged = Thresholds(speak=gr.skip(), update=gr.skip())
    if "video" not in link:
        return (*choose_demo(bench, live, chosen), *unchanged)
    try:
        clip = bench.demos.find(link["video"])
        thresholds = Thresholds(
            speak=read_threshold(link.get("speak", 0.5), "speak"),
            update=read_threshold(link.get("update", 0.5), "update"),
        )
    except ValueError as error:
        shown = choose_demo(bench, live, chosen)
        status = say(sentence(f"the link leads nowhere: {error}"), is_problem=True)
        return (*shown[: len(ClipView._fields)], status, *shown[len(ClipView._fields) + 1 :], *unchanged)
    shown = choose_demo(bench, live, clip.name)
    clip_view = ClipView(*shown[: len(ClipView._fields)])
    if clip_view.clip is None:
        return (*shown, *unchanged)
    clip_view = clip_view._replace(chosen=clip.name)
    if "run" not in link:
        return (
            *clip_view,
            *show_nothing(f"{clip.name}, {clock(clip.duration_s)}. Press Run."),
            *_ready(live),
            *thresholds,
        )
    buttons = _begin(LiveRun(linked_digest=link["run"]))
    return (*clip_view, *show_nothing("Waiting to start."), *buttons, *thresholds)


def begin() -> Page:
    """Make the page ready for a run that may have to wait for another window's: ``RunView``, ``Buttons``.

    What is shown stays until there is something new.
    """
    return (*say_only("Waiting to start."), *_begin(LiveRun()))


def _begin(live: LiveRun) -> Buttons:
    return Buttons(live=live, run=gr.Button(interactive=False), stop=gr.Button(interactive=True))


def stop(bench: Bench, live: LiveRun | None) -> Page:
    """End a run and show what there is of it: ``RunView``, ``Buttons``."""
    buttons = _ready(live)
    if live is None or live.run is None or not live.run.outputs:
        return (*show_nothing("Stopped before the first frame."), *buttons)
    run = live.run
    said = f"Stopped at {clock(run.reached_s)} of {clock(run.clip.duration_s)}."
    return (*show_run(run, said, encode=bench.encode), *buttons)


def end(live: LiveRun | None) -> Buttons:
    """Make the page ready for the next run, unless another has begun meanwhile; what ended can be run again."""
    if live is None or not live.ended.is_set():
        return Buttons(live=gr.skip(), run=gr.skip(), stop=gr.skip())
    return _ready(None)._replace(live=gr.skip())


def take_thresholds(event: gr.EventData) -> Thresholds:
    """Set the sliders to what the player's hand let go of."""
    return Thresholds(speak=float(event.speak), update=float(event.update))


def read_threshold(value: object, name: str) -> float:
    """Read a threshold of a slider or a link. Raises ``ValueError`` unless it is a number within [0, 1]."""
    try:
        threshold = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise ValueError(
            f"the {name} threshold must be a number from 0 to 1; got {'nothing' if value is None else value}"
        )
    return threshold


def read_task(clip: Clip, *, goal: str, steps: str, user_turns: str) -> Task:
    """Read the task from the page's boxes. Raises ``ValueError`` naming the line that is wrong."""
    parsed = parse_steps(steps)
    turns = tuple(parse_user_turn(line.strip()) for line in user_turns.splitlines() if line.strip())
    for turn in turns:
        if turn.time_s >= clip.duration_s:
            at, end_s = clock(turn.time_s), clock(clip.duration_s)
            raise ValueError(f"the user turn at {at} comes after the end of the video ({end_s}): {turn.text!r}")
    known = {step.id for step in parsed}
    states = clip.sample.initial_state if clip.sample else {}
    return Task(
        goal=goal.strip(),
        steps=parsed,
        user_turns=turns,
        initial_state={step_id: state for step_id, state in states.items() if step_id in known},
    )


def _without_clip(live: LiveRun | None, status: str, *, task: Any, is_problem: bool = False) -> Page:
    view = ClipView(clip=None, video=None, chosen=None, upload=None, goal=task, steps=task, user_turns=task)
    return (*view, *show_nothing(status, is_problem=is_problem), *_ready(live))


def _ready(live: LiveRun | None) -> Buttons:
    """End what is under way; then the next run can begin."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))

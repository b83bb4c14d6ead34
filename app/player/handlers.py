"""What happens on a click: free functions from what is on the page to what shall be on it.

Each returns views, named tuples whose fields are the outputs that ``app.page`` wires, in that order. Whatever is
wrong with a video or an entry becomes a sentence in the status line. What a window has under way is its own
``LiveRun``; nothing is global, so two windows never mix.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.formatting import clock, sentence
from app.player.context import Bench
from app.player.session.live_run import LiveRun
from app.player.session.references import add_reference, describe_reference
from app.player.views import (
    UNCHANGED,
    Buttons,
    ClipView,
    Page,
    Thresholds,
    say,
    say_only,
    show_clip,
    show_nothing,
    show_run,
    task_boxes,
)
from app.videos import Clip
from engine.config import read_threshold
from engine.control.controller import Task
from engine.dialogue import parse_steps, parse_user_turn
from engine.errors import EngineError
from engine.io import replace_surrogates

CHOOSE = "Choose a bundled video or upload one."


def choose_demo(bench: Bench, live: LiveRun | None, name: str | None) -> Page:
    """Show a bundled video and fill in its task: ``ClipView``, ``RunView``, ``Buttons``."""
    if name is None:
        return _without_clip(live, bench.demos.notice or CHOOSE, task=gr.skip())
    try:
        clip = bench.demos.find(name)
        video = bench.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        return _without_clip(live, sentence(error), is_problem=True, task="")
    status = f"{clip.name}, {clock(clip.duration_s)}. Press Run. {bench.demos.notice}".strip()
    return (*show_clip(clip, video, chosen=gr.skip()), *show_nothing(status, clip=clip), *end_run(live))


def take_reference(bench: Bench, live: LiveRun | None, clip: Clip | None, reference: str | None) -> Page:
    """Add a reference to the upload that is shown, or take it away: ``ClipView``, ``RunView``, ``Buttons``.

    A file that cannot be used leaves everything as it is, and a sentence says why.
    """
    unchanged = ClipView(*(gr.skip() for _ in ClipView._fields))
    kept = Buttons(live=gr.skip(), run=gr.skip(), stop=gr.skip())
    if clip is None or not clip.content_digest:
        said = "A reference belongs to an upload: upload a video first." if reference else ""
        return (*unchanged, *(say_only(said, is_problem=True) if said else UNCHANGED), *kept)
    if reference is None:
        clip = replace(clip, sample=None)
        bench.recent.keep_clip(clip)
        status = f"{clip.name}, {clock(clip.duration_s)}, without a reference."
        return (*unchanged._replace(clip=clip), *show_nothing(status, clip=clip), *end_run(live))
    path = Path(reference)
    try:
        clip, sample = add_reference(clip, path)
    except (ValueError, OSError) as error:
        return (*unchanged, *say_only(sentence(error), is_problem=True), *kept)
    said, is_odd = describe_reference(clip, sample, path)
    bench.recent.keep_clip(clip)
    view = unchanged._replace(**task_boxes(sample), clip=clip)
    return (*view, *show_nothing(said, clip=clip, is_problem=is_odd), *end_run(live))


def open_page(bench: Bench, live: LiveRun | None, chosen: str | None, link: Mapping[str, str]) -> Page:
    """Show the hardest bundled video, or what a link names: ``ClipView``, ``RunView``, ``Buttons``, ``Thresholds``.

    A link (see ``linkedMoment`` in the player, and ``app.player.session.places``) names a bundled video or an upload,
    thresholds, a moment, which the player goes to, and a run, which is run again unless this server alone can have it.
    """
    unchanged = Thresholds(speak=gr.skip(), update=gr.skip())
    if not {"video", "upload"} & set(link):
        return (*choose_demo(bench, live, chosen), *unchanged)
    try:
        clip = bench.recent.find_clip(link["upload"]) if "upload" in link else bench.demos.find(link["video"])
        thresholds = Thresholds(
            speak=read_threshold(link.get("speak", 0.5), "speak"),
            update=read_threshold(link.get("update", 0.5), "update"),
        )
        video = bench.copies.find_or_convert(clip.path, start_s=clip.start_s, duration_s=clip.duration_s)
    except (EngineError, ValueError) as error:
        return (*open_instead(bench, live, chosen, error), *unchanged)
    run = bench.recent.find_run(link.get("run"), clip)
    clip_view = ClipView(
        clip=clip,
        video=str(video),
        chosen=None if clip.content_digest else clip.name,
        upload=gr.skip() if clip.content_digest else None,
        **(task_boxes(run or clip.sample or Task())),
    )
    if run is not None:
        said = f"{clip.name}, {clock(clip.duration_s)}, the run as it was. Press N for the next failure."
        buttons = end_run(live)._replace(live=LiveRun.over(run))
        of_run = Thresholds(speak=run.config.speak_threshold, update=run.config.update_threshold)
        return (*clip_view, *show_run(run, said, encode=bench.encode), *buttons, *of_run)
    if "run" not in link or clip.content_digest:
        gone = " Its run is not kept any more." if "run" in link else ""
        said = f"{clip.name}, {clock(clip.duration_s)}.{gone} Press Run."
        return (*clip_view, *show_nothing(said, clip=clip), *end_run(live), *thresholds)
    buttons = _begin(LiveRun(linked_digest=link["run"]))
    return (*clip_view, *show_nothing("Waiting to start.", clip=clip), *buttons, *thresholds)


def open_instead(bench: Bench, live: LiveRun | None, chosen: str | None, error: Exception) -> Page:
    """Show the hardest bundled video and say why a link cannot be followed: ``ClipView``, ``RunView``, ``Buttons``."""
    shown = choose_demo(bench, live, chosen)
    status = say(sentence(f"the link leads nowhere: {error}"), is_problem=True)
    return (*shown[: len(ClipView._fields)], status, *shown[len(ClipView._fields) + 1 :])


def begin(
    live: LiveRun | None, clip: Clip | None, goal: str, steps: str, user_turns: str, speak: object, update: object
) -> Page:
    """Make the page ready for a run that may have to wait for another window's: ``RunView``, ``Buttons``.

    What is shown stays until there is something new. A wrong entry is refused, and nothing ends.
    """
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        read_threshold(speak, "speak")
        read_threshold(update, "update")
    except ValueError as error:
        return (*say_only(sentence(error), is_problem=True), gr.skip(), gr.skip(), gr.skip())
    if live is not None:
        live.is_wanted = False
    return (*say_only("Waiting to start."), *_begin(LiveRun()))


def _begin(live: LiveRun) -> Buttons:
    return Buttons(live=live, run=gr.Button(interactive=False), stop=gr.Button(interactive=True))


def halt(live: LiveRun | None) -> None:
    """Ask a run to end at its next frame, and wait for it: no update of it comes after what ``stop`` shows."""
    if live is not None:
        live.stop()


def stop(bench: Bench, live: LiveRun | None) -> Page:
    """End a run and show what there is of it, which can be run again: ``RunView``, ``Buttons``.

    It stays the window's run: thresholds that are asked for meanwhile are asked of it.
    """
    buttons = end_run(live)
    if live is None or live.run is None or not live.run.outputs:
        return (*show_nothing("Stopped before the first frame."), *buttons)
    run = live.run
    bench.recent.keep_run(run)
    bench.recordings.keep(live)
    live.is_wanted = live.ended.is_set()
    said = f"Stopped at {clock(run.reached_s)} of {clock(run.clip.duration_s)}."
    return (*show_run(run, said, encode=bench.encode), *buttons._replace(live=live))


def end(live: LiveRun | None) -> Buttons:
    """Make the page ready for the next run, unless another has begun meanwhile; what ended can be run again."""
    if live is None or not live.ended.is_set():
        return Buttons(live=gr.skip(), run=gr.skip(), stop=gr.skip())
    return end_run(None)._replace(live=gr.skip())


def read_task(clip: Clip, *, goal: str | None, steps: str | None, user_turns: str | None) -> Task:
    """Read the task from the page's boxes; None is empty. Raises ``ValueError`` naming the line that is wrong."""
    goal, steps, user_turns = (replace_surrogates(text or "") for text in (goal, steps, user_turns))
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
    return (*view, *show_nothing(status, is_problem=is_problem), *end_run(live))


def end_run(live: LiveRun | None) -> Buttons:
    """End what is under way; then the next run can begin."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))

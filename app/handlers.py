"""What happens on a click: free functions from what is on the page to what shall be on it.

Each returns views, named tuples whose fields are the outputs that ``app.ui`` wires, in that order. Whatever is
wrong with a video or an entry becomes a sentence in the status line. What a window has under way is its own
``LiveRun``; nothing is global, so two windows never mix.
"""

import math
import time
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.clips import Clip, Demos, read_upload
from app.desk.desk import Desk
from app.display import DisplayCopies
from app.reviews.desk import read_review
from app.runs import Run
from app.views import (
    UNCHANGED,
    Buttons,
    ClipView,
    LiveRun,
    Page,
    RunView,
    Thresholds,
    say,
    show_nothing,
    show_run,
    show_running,
)
from app.words import clock, sentence
from engine.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.control import Task
from engine.dialogue import parse_steps, parse_user_turn
from engine.errors import EngineError, VideoError
from engine.replay import Recording
from engine.stream import Streamer
from engine.video import Frame, VideoWarning, read_frames
from engine.vision import encode
from eval.corrections import apply_corrections
from eval.matching import Encode

UPDATE_EVERY_S = 0.2
"""The page is updated at most five times a second while it streams."""
REST_PER_UPDATE = 4.0
"""Times as long as an update took, the run goes on without another: a long run is not held up by its display."""
FRAMES_PER_PASS = 8
"""Frames fed together; the result is the same for any number."""
MOST_KEPT_VALUES = 2**26
"""Numbers of frame features that a window keeps, 256 MB, so that other thresholds run only what differs."""
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
    sample = clip.sample
    assert sample is not None
    view = ClipView(
        clip=clip,
        video=str(video),
        chosen=gr.skip(),
        upload=None,
        goal=sample.goal,
        steps="\n".join(f"{step.id}: {step.name}" for step in sample.steps),
        user_turns="\n".join(f"{turn.time_s:g}: {turn.text}" for turn in sample.user_turns),
    )
    status = f"{clip.name}, {clock(clip.duration_s)}. Press Run. {bench.demos.notice}".strip()
    return (*view, *show_nothing(status), *_ready(live))


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
    clip_view = ClipView(*choose_demo(bench, live, clip.name)[: len(ClipView._fields)])._replace(chosen=clip.name)
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
    return (*_say_only("Waiting to start."), *_begin(LiveRun()))


def _begin(live: LiveRun) -> Buttons:
    return Buttons(live=live, run=gr.Button(interactive=False), stop=gr.Button(interactive=True))


def _say_only(status: str, *, is_problem: bool = False) -> RunView:
    return UNCHANGED._replace(status=say(status, is_problem=is_problem))


def stream(
    bench: Bench,
    live: LiveRun | None,
    clip: Clip | None,
    goal: str,
    steps: str,
    user_turns: str,
    speak_threshold: float | None,
    update_threshold: float | None,
) -> Generator[RunView]:
    """Stream the video through the model and show what it says as it says it; nothing unless a run was begun."""
    if live is None or live.is_started:
        yield UNCHANGED
        return
    live.is_started = True
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        config = StreamConfig(
            fps=clip.fps,
            speak_threshold=read_threshold(speak_threshold, "speak"),
            update_threshold=read_threshold(update_threshold, "update"),
            lookahead=FRAMES_PER_PASS,
            max_seq_len=min(StreamConfig().max_seq_len, bench.checkpoint.model.max_context),
        )
        if clip.sample is not None and task.steps != clip.sample.steps:
            clip = replace(clip, sample=None)  # other steps than the reference's cannot be held against it
        live.run = Run(clip=clip, task=task, config=config, model_digest=bench.checkpoint.digest)
        yield from _stream(bench, live, live.run)
    except (EngineError, ValueError) as error:
        problem = sentence(error)
        if live.run is None:
            yield _say_only(problem, is_problem=True)
        else:
            yield show_run(live.run, problem, encode=bench.encode, is_problem=True)
    finally:
        live.ended.set()


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


def rerun(bench: Bench, live: LiveRun | None, speak_threshold: float, update_threshold: float) -> RunView:
    """Run a finished run again, exactly, with other thresholds."""
    if live is None or live.run is None or not live.run.is_finished:
        return _say_only("There is no finished run to try other thresholds on: press Run.", is_problem=True)
    speak, update = read_threshold(speak_threshold, "speak"), read_threshold(update_threshold, "update")
    config = replace(live.run.config, speak_threshold=speak, update_threshold=update)
    began = time.perf_counter()
    if live.recording is not None:
        live.recording = live.recording.at(speak_threshold=speak, update_threshold=update)
        outputs = tuple(live.recording.run())
    else:
        frames = encode(bench.checkpoint, read_frames(live.run.clip.path, fps=config.fps))
        outputs = tuple(Streamer(bench.checkpoint, config).run(frames, live.run.task))
    live.run = replace(live.run, config=config, outputs=outputs)
    wall_s = time.perf_counter() - began
    said = f"Done: the same run with the new thresholds, {len(outputs)} frames in {wall_s:.1f} s."
    return show_run(live.run, said, encode=bench.encode)


def judge_against(bench: Bench, desk: Desk, live: LiveRun | None, event: gr.EventData) -> RunView:
    """Show the run judged by the reference as corrected, or by the source's; conflicts leave the source."""
    run = live.run if live else None
    sample = desk.sample(run.clip.name) if run else None
    if run is None or sample is None or run.clip.sample is None:
        return _say_only("There is no run with a reference to judge: press Run.", is_problem=True)
    if not event.corrected:
        return show_run(run, "Judged by the reference of the source.", encode=bench.encode)
    corrections = read_review(desk.store, video_id=sample.video_id).corrections.get(sample.video_id, ())
    corrected = apply_corrections(sample, corrections)
    said = f"Judged by the corrected reference: {len(corrections)} corrections, {len(corrected.conflicts)} in conflict."
    return show_run(run, said, encode=bench.encode, corrected=corrected)


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


def _stream(bench: Bench, live: LiveRun, run: Run) -> Generator[RunView]:
    damages: list[str] = []
    frames = _watched(run.clip, damages, max_duration_s=bench.max_duration_s)
    features = encode(bench.checkpoint, frames, batch_size=FRAMES_PER_PASS)
    if _fits(bench, run):
        live.recording = Recording(bench.checkpoint, features, task=run.task, config=run.config)
        outputs = live.recording.run()
    else:
        outputs = Streamer(bench.checkpoint, run.config).run(features, run.task)
    began = shown = time.perf_counter()
    with closing(outputs):
        for output in outputs:
            if not live.is_wanted:
                return
            live.run = run = replace(run, outputs=(*run.outputs, output))
            now = time.perf_counter()
            if now - shown >= UPDATE_EVERY_S:
                yield show_running(run, rate=len(run.outputs) / (now - began))
                shown = now + REST_PER_UPDATE * (time.perf_counter() - now)
    wall_s = time.perf_counter() - began
    live.run = run = replace(run, is_finished=True)
    said = [f"Done: {len(run.outputs)} frames in {wall_s:.1f} s ({len(run.outputs) / wall_s:.0f} frames/s).", *damages]
    if live.linked_digest not in (None, run.digest):
        said.append("The link was made from another run: the checkpoint, the task or the settings differ.")
    is_problem = len(said) > 1
    if run.clip.is_bundled and run.clip.sample is None:
        said.append("Without scores: the steps are not those of the reference.")
    yield show_run(run, " ".join(said), encode=bench.encode, is_problem=is_problem)


def _fits(bench: Bench, run: Run) -> bool:
    """Whether a window may keep the frames of the run."""
    model = bench.checkpoint.model
    return run.clip.num_frames * model.tokens_per_frame * model.feature_dim <= MOST_KEPT_VALUES


def _watched(clip: Clip, damages: list[str], *, max_duration_s: float) -> Iterator[Frame]:
    """Read the frames; keep the warnings about a damaged file as sentences, refuse one that outruns its header."""
    frames = read_frames(clip.path, fps=clip.fps)
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", VideoWarning)
            frame = next(frames, None)
        damages += [sentence(w.message) for w in caught if issubclass(w.category, VideoWarning)]
        if frame is None:
            return
        if clip.sample is None and frame.time_s > max_duration_s:
            raise VideoError(f"{clip.path}: goes on after the limit of {clock(max_duration_s)}; cut it")
        yield frame


def _without_clip(live: LiveRun | None, status: str, *, task: Any, is_problem: bool = False) -> Page:
    view = ClipView(clip=None, video=None, chosen=None, upload=None, goal=task, steps=task, user_turns=task)
    return (*view, *show_nothing(status, is_problem=is_problem), *_ready(live))


def _ready(live: LiveRun | None) -> Buttons:
    """End what is under way; then the next run can begin."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))

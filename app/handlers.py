"""What happens on a click: free functions from what is on the page to what shall be on it.

Each returns a view, a named tuple whose fields are the outputs that ``app.ui`` wires, in that order. Whatever is
wrong with a video or an entry becomes a sentence in the status line; nothing is kept between calls but what the
views hold, so two windows never mix.
"""

import time
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.charts import draw_run
from app.clips import Clip, Demos, read_upload
from app.display import DisplayCopies
from app.runs import Run, clock
from app.transcript import state_rows, transcript_rows
from engine.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.control import Task
from engine.dialogue import parse_steps, parse_user_turn
from engine.errors import EngineError, VideoError
from engine.stream import Streamer
from engine.video import Frame, VideoWarning, read_frames
from engine.vision import encode

UPDATE_EVERY_S = 0.2
"""The page is updated at most five times a second while it streams."""
FRAMES_PER_PASS = 8
"""Frames fed together; the result is the same for any number."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all windows share; nothing of it changes."""

    checkpoint: Checkpoint
    """The model."""
    demos: Demos
    """The bundled videos."""
    copies: DisplayCopies
    """Converted videos for display."""
    max_duration_s: float
    """Longest upload, in seconds."""


class ClipView(NamedTuple):
    """The page after a video was chosen."""

    clip: Clip | None
    video: Any
    chosen: Any
    upload: Any
    goal: Any
    steps: Any
    user_turns: Any
    status: Any


class RunView(NamedTuple):
    """The page while and after a run."""

    run: Any
    status: Any
    progress: Any
    transcript: Any
    charts: Any
    states: Any


class Buttons(NamedTuple):
    """Which of the two buttons can be pressed."""

    run: Any
    stop: Any


def choose_demo(bench: Bench, name: str | None) -> ClipView:
    """Show a bundled video and fill in its task."""
    if name is None:
        return _no_clip(bench.demos.notice or "Choose a bundled video or upload one.", upload=None, is_problem=False)
    try:
        clip = bench.demos.find(name)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _no_clip(_sentence(error), upload=None)
    sample = clip.sample
    assert sample is not None
    return ClipView(
        clip=clip,
        video=str(video),
        chosen=gr.skip(),
        upload=None,
        goal=sample.goal,
        steps="\n".join(f"{step.id}: {step.name}" for step in sample.steps),
        user_turns="\n".join(f"{turn.time_s:g}: {turn.text}" for turn in sample.user_turns),
        status=say(f"{clip.name}, {clock(clip.duration_s)}. Press Run. {bench.demos.notice}".strip()),
    )


def accept_upload(bench: Bench, upload: str | None) -> ClipView:
    """Check and show an uploaded video; what cannot be streamed is refused in a sentence."""
    if upload is None:
        return _no_clip("Choose a bundled video or upload one.", upload=None, is_problem=False)
    try:
        clip = read_upload(Path(upload), max_duration_s=bench.max_duration_s)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _no_clip(_sentence(error), upload=None)
    converted = "" if video == clip.path else " Shown as a converted copy, because browsers cannot play the file."
    return ClipView(
        clip=clip,
        video=str(video),
        chosen=None,
        upload=gr.skip(),
        goal="",
        steps="",
        user_turns="",
        status=say(f"{clip.name}, {clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."),
    )


def begin() -> tuple[Any, ...]:
    """Clear the page for a run that may have to wait for another window's: ``Buttons``, then ``RunView``."""
    buttons = Buttons(run=gr.Button(interactive=False), stop=gr.Button(interactive=True))
    return (*buttons, *_cleared("Waiting to start."))


def stream(
    bench: Bench,
    clip: Clip | None,
    goal: str,
    steps: str,
    user_turns: str,
    speak_threshold: float,
    update_threshold: float,
) -> Generator[RunView]:
    """Stream the video through the model and show what it says as it says it."""
    if clip is None:
        yield _cleared("There is no video. Choose a bundled one or upload one, then press Run.", is_problem=True)
        return
    try:
        config = StreamConfig(
            fps=clip.fps,
            speak_threshold=speak_threshold,
            update_threshold=update_threshold,
            lookahead=FRAMES_PER_PASS,
            max_seq_len=min(StreamConfig().max_seq_len, bench.checkpoint.model.max_context),
        )
        run = Run(clip=clip, task=read_task(clip, goal=goal, steps=steps, user_turns=user_turns), config=config)
        yield from _stream(bench, run)
    except (EngineError, ValueError) as error:
        yield _cleared(_sentence(error), is_problem=True)


def stop(run: Run | None) -> RunView:
    """Show what there is of a run that was cancelled."""
    if run is None:
        return _cleared("Stopped before the first frame.")
    return show_run(run, f"Stopped at {clock(run.reached_s)} of {clock(run.clip.duration_s)}.")


def end() -> Buttons:
    """Make the page ready for the next run."""
    return Buttons(run=gr.Button(interactive=True), stop=gr.Button(interactive=False))


def seek(event: gr.SelectData) -> Any:
    """Move the video to the time of the transcript row that was clicked."""
    minutes, _, seconds = str(event.row_value[0]).partition(":")
    return gr.Video(playback_position=int(minutes) * 60 + float(seconds))


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


def say(text: str, *, is_problem: bool = False) -> Any:
    """Return the status line with a sentence in it."""
    return gr.Textbox(value=text, elem_classes=["problem"] if is_problem else [])


def show_run(run: Run, status: str, *, is_problem: bool = False) -> RunView:
    """Show everything of a run that has come to its end, its own or another."""
    return RunView(
        run=run,
        status=say(status, is_problem=is_problem),
        progress=_bar(len(run.outputs), run.clip.num_frames),
        transcript=transcript_rows(run),
        charts=draw_run(run) if run.outputs else None,
        states=state_rows(run),
    )


def _stream(bench: Bench, run: Run) -> Generator[RunView]:
    damages: list[str] = []
    frames = _watched(run.clip, damages, max_duration_s=bench.max_duration_s)
    features = encode(bench.checkpoint, frames, batch_size=FRAMES_PER_PASS)
    outputs = Streamer(bench.checkpoint, run.config).run(features, run.task)
    began = shown = time.perf_counter()
    try:
        for output in outputs:
            run = replace(run, outputs=(*run.outputs, output))
            now = time.perf_counter()
            if now - shown >= UPDATE_EVERY_S:
                shown = now
                yield _running(run, rate=len(run.outputs) / (now - began))
    except (EngineError, ValueError) as error:
        yield show_run(run, _sentence(error), is_problem=True)
        return
    finally:
        outputs.close()
    wall_s = time.perf_counter() - began
    rate = len(run.outputs) / wall_s
    done = f"Done: {len(run.outputs)} frames in {wall_s:.1f} s ({rate:.0f} frames/s)."
    yield show_run(run, " ".join([done, *damages]), is_problem=bool(damages))


def _watched(clip: Clip, damages: list[str], *, max_duration_s: float) -> Iterator[Frame]:
    """Read the frames; keep the warnings about a damaged file as sentences, refuse one that outruns its header."""
    frames = read_frames(clip.path, fps=clip.fps)
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", VideoWarning)
            frame = next(frames, None)
        damages += [_sentence(w.message) for w in caught if issubclass(w.category, VideoWarning)]
        if frame is None:
            return
        if clip.sample is None and frame.time_s > max_duration_s:
            raise VideoError(f"{clip.path}: goes on after the limit of {max_duration_s / 60:g} minutes; cut it")
        yield frame


def _running(run: Run, *, rate: float) -> RunView:
    at, end_s = clock(run.reached_s), clock(run.clip.duration_s)
    done, total = len(run.outputs), run.clip.num_frames
    return RunView(
        run=run,
        status=say(f"Running: {done} of {total} frames, {rate:.0f} frames/s, at {at} of {end_s}."),
        progress=_bar(done, total),
        transcript=transcript_rows(run),
        charts=gr.skip(),
        states=state_rows(run),
    )


def _cleared(status: str, *, is_problem: bool = False) -> RunView:
    return RunView(
        run=None, status=say(status, is_problem=is_problem), progress=_bar(0, 1), transcript=[], charts=None, states=[]
    )


def _no_clip(status: str, *, upload: Any, is_problem: bool = True) -> ClipView:
    return ClipView(
        clip=None,
        video=None,
        chosen=None,
        upload=upload,
        goal=gr.skip(),
        steps=gr.skip(),
        user_turns=gr.skip(),
        status=say(status, is_problem=is_problem),
    )


def _bar(done: int, total: int) -> str:
    return f'<progress value="{min(done, total)}" max="{total}" aria-label="frames done"></progress>'


def _sentence(error: Exception | Warning | str) -> str:
    """Return an error as a sentence, with a video called by its name rather than its place on this machine."""
    text = str(error)
    path, colon, rest = text.partition(": ")
    text = f"{Path(path).name}: {rest}" if colon and Path(path).is_absolute() else text
    return text if text.endswith(".") else f"{text}."

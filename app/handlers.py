"""What happens on a click: free functions from what is on the page to what shall be on it.

Each returns views, named tuples whose fields are the outputs that ``app.ui`` wires, in that order. Whatever is
wrong with a video or an entry becomes a sentence in the status line. What a window has under way is its own
``LiveRun``; nothing is global, so two windows never mix.
"""

import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import gradio as gr

from app.charts import draw_run
from app.clips import Clip, Demos, read_upload
from app.display import DisplayCopies
from app.runs import Run
from app.transcript import HEADERS, state_rows, transcript_rows
from app.words import clock, seconds, sentence
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
LONGEST_FRAME_S = 60.0
"""Longest wait for a run to end that was told to: one pass of a slow model."""
CHOOSE = "Choose a bundled video or upload one."
WIDTHS = ["11%", "18%", "30%", "12%", "29%"]
WIDTHS_ALONE = ["11%", "18%", "59%", "12%"]
"""Widths of the transcript's columns, with and without a reference."""


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


@dataclass(slots=True, kw_only=True)
class LiveRun:
    """What a window has under way, from one click on Run to its end; the thread that streams writes into it."""

    run: Run | None = None
    """The run so far; None before its first frame."""
    is_started: bool = False
    """Whether it has had its turn."""
    is_wanted: bool = True
    """Whether it shall go on."""
    ended: Event = field(default_factory=Event)
    """Set when nothing more will come."""

    def stop(self) -> None:
        """Ask it to end, and wait until nothing more can come."""
        self.is_wanted = False
        if self.is_started:
            self.ended.wait(timeout=LONGEST_FRAME_S)


class ClipView(NamedTuple):
    """The boxes of the video and its task."""

    clip: Clip | None
    video: Any
    chosen: Any
    upload: Any
    goal: Any
    steps: Any
    user_turns: Any


class RunView(NamedTuple):
    """What a run shows, while it goes on and after."""

    status: Any
    progress: Any
    transcript: Any
    charts: Any
    states: Any


class Buttons(NamedTuple):
    """What a window has under way, and which of the two buttons can be pressed."""

    live: LiveRun | None
    run: Any
    stop: Any


Page = tuple[Any, ...]
"""Several views one after another."""


def choose_demo(bench: Bench, live: LiveRun | None, name: str | None) -> Page:
    """Show a bundled video and fill in its task: ``ClipView``, ``RunView``, ``Buttons``."""
    if name is None:
        return _without_clip(live, bench.demos.notice or CHOOSE)
    try:
        clip = bench.demos.find(name)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _without_clip(live, sentence(error), is_problem=True)
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
    return (*view, *_cleared(status), *_ready(live))


def accept_upload(bench: Bench, live: LiveRun | None, upload: str | None) -> Page:
    """Check and show an upload, or refuse it in a sentence: ``ClipView``, ``RunView``, ``Buttons``."""
    if upload is None:
        return _without_clip(live, CHOOSE)
    try:
        clip = read_upload(Path(upload), max_duration_s=bench.max_duration_s)
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError) as error:
        return _without_clip(live, sentence(error), is_problem=True)
    view = ClipView(
        clip=clip, video=str(video), chosen=None, upload=gr.skip(), goal=gr.skip(), steps=gr.skip(), user_turns=""
    )
    converted = "" if video == clip.path else " Shown as a converted copy, because browsers cannot play the file."
    status = f"{clip.name}, {clock(clip.duration_s)}.{converted} Set goal and steps, then press Run."
    return (*view, *_cleared(status), *_ready(live))


def begin() -> Page:
    """Clear the page for a run that may have to wait for another window's: ``RunView``, ``Buttons``."""
    buttons = Buttons(live=LiveRun(), run=gr.Button(interactive=False), stop=gr.Button(interactive=True))
    return (*_cleared("Waiting to start."), *buttons)


def stream(
    bench: Bench,
    live: LiveRun,
    clip: Clip | None,
    goal: str,
    steps: str,
    user_turns: str,
    speak_threshold: float,
    update_threshold: float,
) -> Generator[RunView]:
    """Stream the video through the model and show what it says as it says it."""
    live.is_started = True
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        config = StreamConfig(
            fps=clip.fps,
            speak_threshold=speak_threshold,
            update_threshold=update_threshold,
            lookahead=FRAMES_PER_PASS,
            max_seq_len=min(StreamConfig().max_seq_len, bench.checkpoint.model.max_context),
        )
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        live.run = Run(clip=clip, task=task, config=config)
        yield from _stream(bench, live, live.run)
    except (EngineError, ValueError) as error:
        problem = sentence(error)
        yield show_run(live.run, problem, is_problem=True) if live.run else _cleared(problem, is_problem=True)
    finally:
        live.ended.set()


def stop(live: LiveRun | None) -> Page:
    """End a run and show what there is of it: ``RunView``, ``Buttons``."""
    buttons = _ready(live)
    if live is None or live.run is None or not live.run.outputs:
        return (*_cleared("Stopped before the first frame."), *buttons)
    run = live.run
    return (*show_run(run, f"Stopped at {clock(run.reached_s)} of {clock(run.clip.duration_s)}."), *buttons)


def end() -> Buttons:
    """Make the page ready for the next run."""
    return _ready(None)


def seek(event: gr.SelectData) -> Any:
    """Move the video to the time of the transcript row that was clicked."""
    return gr.Video(playback_position=seconds(str(event.row_value[0])))


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
    """Show everything of a run that goes on no more."""
    return RunView(
        status=say(status, is_problem=is_problem),
        progress=_bar(len(run.outputs), run.clip.num_frames),
        transcript=_transcript(run),
        charts=draw_run(run) if run.outputs else None,
        states=state_rows(run),
    )


def _stream(bench: Bench, live: LiveRun, run: Run) -> Generator[RunView]:
    damages: list[str] = []
    frames = _watched(run.clip, damages, max_duration_s=bench.max_duration_s)
    features = encode(bench.checkpoint, frames, batch_size=FRAMES_PER_PASS)
    outputs = Streamer(bench.checkpoint, run.config).run(features, run.task)
    began = shown = time.perf_counter()
    with closing(outputs):
        for output in outputs:
            if not live.is_wanted:
                return
            live.run = run = replace(run, outputs=(*run.outputs, output))
            now = time.perf_counter()
            if now - shown >= UPDATE_EVERY_S:
                shown = now
                yield _running(run, rate=len(run.outputs) / (now - began))
    wall_s = time.perf_counter() - began
    done = f"Done: {len(run.outputs)} frames in {wall_s:.1f} s ({len(run.outputs) / wall_s:.0f} frames/s)."
    yield show_run(run, " ".join([done, *damages]), is_problem=bool(damages))


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
            raise VideoError(f"{clip.path}: goes on after the limit of {max_duration_s / 60:g} minutes; cut it")
        yield frame


def _running(run: Run, *, rate: float) -> RunView:
    at, end_s = clock(run.reached_s), clock(run.clip.duration_s)
    done, total = len(run.outputs), run.clip.num_frames
    return RunView(
        status=say(f"Running: {done} of {total} frames, {rate:.0f} frames/s, at {at} of {end_s}."),
        progress=_bar(done, total),
        transcript=_transcript(run),
        charts=gr.skip(),
        states=state_rows(run),
    )


def _cleared(status: str, *, is_problem: bool = False) -> RunView:
    said = say(status, is_problem=is_problem)
    return RunView(status=said, progress=_bar(0, 1), transcript=[], charts=None, states=[])


def _without_clip(live: LiveRun | None, status: str, *, is_problem: bool = False) -> Page:
    view = ClipView(
        clip=None, video=None, chosen=None, upload=None, goal=gr.skip(), steps=gr.skip(), user_turns=gr.skip()
    )
    return (*view, *_cleared(status, is_problem=is_problem), *_ready(live))


def _ready(live: LiveRun | None) -> Buttons:
    """End what is under way; then the next run can begin."""
    if live is not None:
        live.stop()
    return Buttons(live=None, run=gr.Button(interactive=True), stop=gr.Button(interactive=False))


def _transcript(run: Run) -> Any:
    """Return the transcript, without the column of a reference that is not there."""
    rows, headers, widths = transcript_rows(run), HEADERS, WIDTHS
    if run.clip.sample is None:
        rows, headers, widths = [row[:-1] for row in rows], HEADERS[:-1], WIDTHS_ALONE
    return gr.Dataframe(value={"headers": headers, "data": rows}, column_widths=widths)


def _bar(done: int, total: int) -> str:
    return f'<progress value="{min(done, total)}" max="{total}" aria-label="frames done"></progress>'

"""The run that is shown, run again with the thresholds that a window asked for last.

A window numbers its requests, and the latest counts. A run under way for an older request ends at its next frame and
shows nothing. So at rest the sliders, the lanes, the scores and the status agree with one run.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice

import gradio as gr

from app.formatting import sentence
from app.player.context import Bench
from app.player.session.live_run import LiveRun
from app.player.session.run import Run
from app.player.views import UNCHANGED, RunView, say_only, show_rerunning, show_run
from app.widgets import read_event
from engine.config import format_threshold, read_threshold
from engine.errors import EngineError
from engine.model.frame_encoder import FrameFeatures, encode
from engine.records import FrameOutput, check_probs
from engine.replay import Recording, Thresholds
from engine.streamer import Streamer
from engine.video.reader import read_frames
from eval.data.json_fields import check_index

UPDATE_EVERY_S = 0.4
"""Least time between two sentences about how far it is."""


def ask(bench: Bench, live: LiveRun | None, event: gr.EventData) -> RunView:
    """Note the thresholds that a window asks for; ``rerun`` runs them when the model is free.

    The event has ``speak`` and ``update``, the ``ticket`` that numbers the requests of the window, and ``has_run``,
    whether a run is shown.
    """
    try:
        speak, update = (read_threshold(read_event(event, name), name) for name in ("speak", "update"))
        asked = Thresholds(speak=speak, update=update)
        ticket = read_event(event, "ticket")
        check_index("ticket", ticket)
    except ValueError as error:
        return say_only(sentence(error), is_problem=True)
    if live is None:
        text = "There is no run to try other thresholds on: press Run."
        return say_only(text, is_problem=True) if read_event(event, "has_run") else UNCHANGED
    if ticket <= live.ticket:
        return UNCHANGED
    live.asked, live.ticket = asked, ticket
    if live.run is None or not live.ended.is_set():
        return UNCHANGED  # the run that waits or streams is shown first
    if live.run.model_digest != bench.checkpoint.digest:
        return _refuse(
            bench, live, live.run, "this run is of another checkpoint than the page's, or of an older version"
        )
    if asked == live.run.thresholds:
        return say_only(f"The run has these thresholds: {_words(asked)}.")
    return say_only(f"Waiting to run again with {_words(asked)}.")


def rerun(bench: Bench, live: LiveRun | None) -> Generator[RunView]:
    """Run the run that is shown again, exactly, with the thresholds asked for last, as far as it went.

    Yields nothing new if it has them already, and nothing more once others are asked for or another video is shown.
    """
    if live is None or live.run is None or live.asked in (None, live.run.thresholds):
        yield UNCHANGED
        return
    run, asked = live.run, live.asked
    try:
        if run.model_digest != bench.checkpoint.digest:
            raise ValueError("this run is of another checkpoint than the page's, or of an older version")
        began = shown = time.perf_counter()
        again, recording, steps = _start(bench, live, run, asked)
        outputs: list[FrameOutput] = []
        with closing(steps):
            for output in map(check_probs, steps):
                if not _is_current(live, asked):
                    break
                outputs.append(output)
                if time.perf_counter() - shown >= UPDATE_EVERY_S:
                    yield show_rerunning(run, len(outputs), f"Running again with {_words(asked)}")
                    shown = time.perf_counter()
    except (EngineError, ValueError) as error:
        yield _refuse(bench, live, run, str(error))
        return
    if not _is_current(live, asked):
        yield UNCHANGED
        return
    wall_s = time.perf_counter() - began
    live.run = replace(again, outputs=tuple(outputs), name="", live=None, settings=bench.settings)
    live.recording = recording
    bench.recordings.keep(live)
    bench.recent.keep_run(live.run)
    said = f"Done: the same run with {_words(asked)}, {len(outputs)} frames in {wall_s:.1f} s."
    yield show_run(live.run, said, encode=bench.encode, other=live.other, answers=live.ticket)


def _is_current(live: LiveRun, asked: Thresholds) -> bool:
    """Whether the window still shows this run and has asked for no other thresholds."""
    return live.is_wanted and live.asked == asked


def _start(
    bench: Bench, live: LiveRun, run: Run, asked: Thresholds
) -> tuple[Run, Recording | None, Generator[FrameOutput]]:
    """Return the run with its new settings, its recording if one is kept, and the generator of its outputs."""
    config = replace(run.config, speak_threshold=asked.speak, update_threshold=asked.update)
    again = replace(run, config=config, outputs=())
    if live.recording is not None:
        recording = live.recording.at(speak_threshold=asked.speak, update_threshold=asked.update)
        return again, recording, recording.run()
    frames = encode(bench.checkpoint, read_frames(run.clip.path, fps=config.fps, excerpt=run.clip.excerpt))
    return again, None, Streamer(bench.checkpoint, config).run(_first(frames, len(run.outputs)), run.task)


def _first(frames: Generator[FrameFeatures], count: int) -> Iterator[FrameFeatures]:
    """Yield the first frames, then close their source."""
    with closing(frames):
        yield from islice(frames, count)


def _refuse(bench: Bench, live: LiveRun, run: Run, problem: str) -> RunView:
    """Say why the run keeps its thresholds, and set what is shown back to them."""
    live.asked = None
    said = f"{sentence(problem)} It keeps {_words(run.thresholds)}; press Run to run the video anew."
    return show_run(run, said, encode=bench.encode, is_problem=True, other=live.other, answers=live.ticket)


def _words(thresholds: Thresholds) -> str:
    return f"speak {format_threshold(thresholds.speak)}, update {format_threshold(thresholds.update)}"

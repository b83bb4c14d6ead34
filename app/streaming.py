"""A run as it streams: from a click on Run to its end, with other thresholds, and judged by another reference.

Free functions from what is on the page to ``RunView``. They stream frame by frame, so a run can be watched, stopped and
met under way; what is shown is brought up to date at most five times a second.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

import gradio as gr

from app.clips import Clip
from app.desk.desk import Desk
from app.desk.who import signed_in, typed_name
from app.handlers import Bench, read_task, read_threshold
from app.reviews.history import read_review
from app.runs import Run
from app.views import UNCHANGED, LiveRun, RunView, say_only, show_run, show_running
from app.words import clock, sentence
from engine.config import StreamConfig
from engine.errors import EngineError, VideoError
from engine.records import check_probs
from engine.replay import Recording
from engine.stream import Streamer
from engine.video import Frame, read_frames
from engine.vision import encode
from eval.corrections import apply_corrections

UPDATE_EVERY_S = 0.2
"""The page is updated at most five times a second while it streams."""
REST_PER_UPDATE = 4.0
"""Times as long as an update took, the run goes on without another: a long run is not held up by its display."""
FRAMES_PER_PASS = 8
"""Frames fed together; the result is the same for any number."""
MOST_KEPT_VALUES = 2**26
"""Numbers of frame features that a window keeps, 256 MB, so that other thresholds run only what differs."""


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
            yield say_only(problem, is_problem=True)
        else:
            yield show_run(live.run, problem, encode=bench.encode, is_problem=True)
    finally:
        live.ended.set()


def rerun(bench: Bench, live: LiveRun | None, speak_threshold: float, update_threshold: float) -> RunView:
    """Run a finished run again, exactly, with other thresholds; nothing once another video is shown."""
    if live is None or live.run is None or not live.run.is_finished:
        return say_only("There is no finished run to try other thresholds on: press Run.", is_problem=True)
    run = live.run
    try:
        if run.model_digest != bench.checkpoint.digest:
            raise ValueError("this run is of another checkpoint than the page's; press Run to run the video with that")
        speak, update = read_threshold(speak_threshold, "speak"), read_threshold(update_threshold, "update")
        config = replace(run.config, speak_threshold=speak, update_threshold=update)
        began = time.perf_counter()
        if live.recording is not None:
            recording = live.recording.at(speak_threshold=speak, update_threshold=update)
            outputs = tuple(map(check_probs, recording.run()))
            live.recording = recording
        else:
            frames = encode(bench.checkpoint, read_frames(run.clip.path, fps=config.fps))
            outputs = tuple(map(check_probs, Streamer(bench.checkpoint, config).run(frames, run.task)))
        wall_s = time.perf_counter() - began
    except (EngineError, ValueError) as error:
        return say_only(sentence(error), is_problem=True)
    if not live.is_wanted:
        return UNCHANGED
    live.run = replace(run, config=config, outputs=outputs, name="")
    said = f"Done: the same run with the new thresholds, {len(outputs)} frames in {wall_s:.1f} s."
    return show_run(live.run, said, encode=bench.encode, other=live.other)


def judge_against(bench: Bench, desk: Desk, live: LiveRun | None, event: gr.EventData, request: gr.Request) -> RunView:
    """Show the run judged by the reference as corrected, or by the source's; conflicts leave the source.

    A blind reviewer's own corrections count alone.
    """
    run, other = (live.run, live.other) if live else (None, None)
    sample = desk.sample(run.clip.video_id) if run else None
    if run is None or sample is None or run.clip.sample is None:
        return say_only("There is no run with a reference to judge: press Run.", is_problem=True)
    if not event.corrected:
        return show_run(run, "Judged by the reference of the source.", encode=bench.encode, other=other)
    only = (signed_in(request) or typed_name(event.reviewer)) if desk.is_blind or event.is_blind else None
    corrections = read_review(desk.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    corrected = apply_corrections(sample, corrections)
    said = f"Judged by the corrected reference; corrections: {len(corrections)}, conflicts: {len(corrected.conflicts)}."
    return show_run(run, said, encode=bench.encode, corrected=corrected, other=other)


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
        for output in map(check_probs, outputs):
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
    """Read the frames; keep what is said of a damaged file as a sentence, refuse one that outruns its header."""
    for frame in read_frames(clip.path, fps=clip.fps, on_damage=lambda what: damages.append(sentence(what))):
        if clip.content_digest and frame.time_s > max_duration_s:
            raise VideoError(f"{clip.path}: goes on after the limit of {clock(max_duration_s)}; cut it")
        yield frame

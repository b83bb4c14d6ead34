"""A run as it streams, from a click on Run to its end, and judged by another reference.

Free functions from what is on the page to ``RunView``. They stream frame by frame, so a run can be watched, stopped and
met under way; the player fetches the frames itself (``app.player.increments``), at most every 0.4 s.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

import gradio as gr

from app.formatting import clock, sentence
from app.identity import signed_in, typed_name
from app.player.context import Bench
from app.player.handlers import read_task
from app.player.increments import Increments
from app.player.review_context import ReviewContext
from app.player.session.live_run import LiveRun
from app.player.session.references import digest_reference
from app.player.session.run import Run, TaskText
from app.player.views import UNCHANGED, RunView, say_only, show_run, show_running
from app.reviews.history import read_review
from app.videos import Clip
from app.widgets import read_event
from engine.config import StreamConfig, read_threshold
from engine.errors import EngineError, VideoError
from engine.model.frame_encoder import encode
from engine.records import FrameOutput, check_probs
from engine.replay import Recording, Thresholds
from engine.streamer import Streamer
from engine.video.reader import Frame, read_frames
from eval.annotations.corrected_samples import apply_corrections

SAY_EVERY_S = 1.0
"""The status line and the progress bar change at most once a second: each change makes the browser lay out the page."""
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
    """Stream the video through the model and show what it says as it says it; nothing unless a run was begun.

    Thresholds that were asked for while it waited count; later ones are for ``app.player.reruns``.
    """
    if live is None or live.is_started:
        yield UNCHANGED
        return
    live.is_started = True
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        asked = live.asked or Thresholds(
            speak=read_threshold(speak_threshold, "speak"), update=read_threshold(update_threshold, "update")
        )
        config = StreamConfig(
            fps=clip.fps,
            speak_threshold=asked.speak,
            update_threshold=asked.update,
            lookahead=FRAMES_PER_PASS,
            max_seq_len=min(StreamConfig().max_seq_len, bench.checkpoint.model.max_context),
        )
        is_unscored = clip.sample is not None and task.steps != clip.sample.steps
        if is_unscored:
            clip = replace(clip, sample=None)  # other steps than the reference's cannot be held against it
        digest = bench.checkpoint.digest
        written = TaskText(goal=goal, steps=steps, user_turns=user_turns)
        live.run = Run(
            clip=clip, task=task, config=config, written=written, model_digest=digest, settings=bench.settings
        )
        yield from _stream(bench, live, live.run, is_unscored=is_unscored)
    except (EngineError, ValueError) as error:
        problem = sentence(error)
        if live.run is None:
            yield say_only(problem, is_problem=True)
        else:
            yield show_run(live.run, problem, encode=bench.encode, is_problem=True)
    finally:
        live.ended.set()


def judge_against(
    bench: Bench, reviews: ReviewContext, live: LiveRun | None, event: gr.EventData, request: gr.Request
) -> RunView:
    """Show the run judged by the reference as corrected, or by the source's; conflicts leave the source.

    A blind reviewer's own corrections count alone. A run that was replaced meanwhile is not shown again.
    """
    run, other = (live.run, live.other) if live else (None, None)
    sample = reviews.sample(run.clip.video_id, reference=digest_reference(run.clip)) if run else None
    if run is None or sample is None or run.clip.sample is None:
        return say_only("There is no run with a reference to judge: press Run.", is_problem=True)
    if live is not None and live.increments is not None:
        return say_only("The run still streams: it is judged by the reference that you chose once it ends.")
    if not read_event(event, "corrected"):
        return show_run(run, "Judged by the reference of the source.", encode=bench.encode, other=other)
    is_blind = reviews.is_blind or bool(read_event(event, "is_blind"))
    only = (signed_in(request) or typed_name(read_event(event, "reviewer"))) if is_blind else None
    corrections = read_review(reviews.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    corrected = apply_corrections(sample, corrections)
    changed, conflicts = corrected.num_changed, len(corrected.conflicts)
    said = f"Judged by the corrected reference; turns changed: {changed}, conflicts: {conflicts}."
    view = show_run(run, said, encode=bench.encode, corrected=corrected, other=other)
    return view if live and live.run is run else judge_against(bench, reviews, live, event, request)


def _stream(bench: Bench, live: LiveRun, run: Run, *, is_unscored: bool) -> Generator[RunView]:
    damages: list[str] = []
    frames = _watched(run.clip, damages, max_duration_s=bench.max_duration_s)
    features = encode(bench.checkpoint, frames, batch_size=FRAMES_PER_PASS)
    if _fits(bench, run):
        live.recording = Recording(bench.checkpoint, features, task=run.task, config=run.config)
        outputs = live.recording.run()
    else:
        outputs = Streamer(bench.checkpoint, run.config).run(features, run.task)
    began = time.perf_counter()
    increments = bench.streams.begin(run)  # until the whole run is shown, the player may fetch the last frames
    reached = yield from _show_as_it_streams(live, run, outputs, increments)
    wall_s = time.perf_counter() - began
    if not live.is_wanted:
        return
    bench.recordings.keep(live)
    live.run = run = replace(run, outputs=reached, is_finished=True)
    bench.recent.keep_run(run)
    said = [f"Done: {len(run.outputs)} frames in {wall_s:.1f} s ({len(run.outputs) / wall_s:.0f} frames/s).", *damages]
    if live.linked_digest not in (None, run.digest):
        said.append("The link was made from another run: the checkpoint, the task, the settings or the version differ.")
    is_problem = len(said) > 1
    if is_unscored:
        said.append("Without scores: the steps are not those of the reference.")
    if run.clip.content_digest and bench.limits:
        said.append(bench.limits)
    yield show_run(run, " ".join(said), encode=bench.encode, is_problem=is_problem)


def _show_as_it_streams(
    live: LiveRun, run: Run, outputs: Generator[FrameOutput], increments: Increments
) -> Generator[RunView, None, tuple[FrameOutput, ...]]:
    """Show how far a run is, with work per update that does not grow with it; return the outputs that were reached."""
    live.increments = increments
    began = time.perf_counter()
    said = -math.inf
    try:
        with closing(outputs):
            for output in map(check_probs, outputs):
                if not live.is_wanted:
                    break
                increments.add(output)
                now = time.perf_counter()
                if now - said >= SAY_EVERY_S:
                    is_first, said = said == -math.inf, now
                    rate = None if is_first else len(increments.outputs) / (now - began)
                    yield show_running(run.clip, increments, rate=rate)
    finally:
        reached = tuple(increments.outputs)
        live.run, live.increments = replace(run, outputs=reached), None
    return reached


def _fits(bench: Bench, run: Run) -> bool:
    """Whether a window may keep the frames of the run."""
    model = bench.checkpoint.model
    return run.clip.num_frames * model.tokens_per_frame * model.feature_dim <= MOST_KEPT_VALUES


def _watched(clip: Clip, damages: list[str], *, max_duration_s: float) -> Iterator[Frame]:
    """Read the frames; keep what is said of a damaged file as a sentence, refuse one that outruns its header."""

    def on_damage(what: str) -> None:
        damages.append(sentence(what))

    for frame in read_frames(clip.path, fps=clip.fps, excerpt=clip.excerpt, on_damage=on_damage):
        if clip.content_digest and frame.time_s > max_duration_s:
            raise VideoError(f"{clip.path}: goes on after the limit of {clock(max_duration_s)}; cut it")
        yield frame

"""Event handlers that stream a run, from the click on Run to its end, or score it against a different reference.

They yield ``RunView`` frame by frame, so that a run can be watched and stopped. The player fetches the frames itself
(``app.player.display.increments``), at most every 0.4 s.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

import gradio as gr

from app.formatting import as_sentence, format_clock
from app.identity import signed_in, typed_name
from app.player.context import AppContext
from app.player.display.increments import StreamIncrements
from app.player.handlers import read_task
from app.player.review_context import ReviewContext
from app.player.session.live_run import LiveRun
from app.player.session.references import digest_reference
from app.player.session.run import Run, TaskText
from app.player.views import UNCHANGED, RunView, show_run, show_running, show_status
from app.reviews.history import read_review
from app.videos import Clip
from app.widgets import read_event
from engine.config import read_threshold
from engine.errors import EngineError, VideoError
from engine.model.frame_encoder import encode
from engine.records import FrameOutput, check_probs
from engine.replay import Recording, Thresholds
from engine.streamer import Streamer
from engine.video.reader import Frame, read_frames
from eval.annotations.corrected_samples import apply_corrections

STATUS_INTERVAL_S = 1.0
"""Minimum time between updates of the status line and progress bar: each one triggers a layout of the whole page."""
FRAMES_PER_PASS = 8
"""Maximum look-ahead frames per forward pass; the result does not depend on it."""
MAX_RECORDED_VALUES = 2**26
"""Maximum frame-feature values in a recording, 256 MB; without a recording, re-runs encode the video again."""


def stream_run(
    context: AppContext,
    live: LiveRun | None,
    clip: Clip | None,
    goal: str,
    steps: str,
    user_turns: str,
    speak_threshold: float | None,
    update_threshold: float | None,
) -> Generator[RunView]:
    """Stream the video through the model and show its outputs as they arrive; nothing without a queued run.

    Thresholds that were requested while the run was queued apply; later ones are left to ``app.player.reruns``.
    """
    if live is None or live.is_started:
        yield UNCHANGED
        return
    live.is_started = True
    try:
        if clip is None:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        task = read_task(clip, goal=goal, steps=steps, user_turns=user_turns)
        requested = live.requested or Thresholds(
            speak=read_threshold(speak_threshold, "speak"), update=read_threshold(update_threshold, "update")
        )
        config = replace(
            context.config,
            fps=clip.fps,
            speak_threshold=requested.speak,
            update_threshold=requested.update,
            lookahead=min(context.config.lookahead, FRAMES_PER_PASS),
            max_seq_len=min(context.config.max_seq_len, context.checkpoint.model.max_context),
        )
        is_unscored = clip.sample is not None and task.steps != clip.sample.steps
        if is_unscored:
            clip = replace(clip, sample=None)  # a reference with different steps cannot be compared
        digest = context.checkpoint.digest
        typed_task = TaskText(goal=goal, steps=steps, user_turns=user_turns)
        live.run = Run(
            clip=clip, task=task, config=config, typed_task=typed_task, model_digest=digest, settings=context.settings
        )
        yield from _stream_frames(context, live, live.run, is_unscored=is_unscored)
    except (EngineError, ValueError) as error:
        problem = as_sentence(error)
        if live.run is None:
            yield show_status(problem, is_problem=True)
        else:
            yield show_run(live.run, problem, encode=context.encode, is_problem=True)
    finally:
        live.ended.set()


def judge_against(
    context: AppContext, reviews: ReviewContext, live: LiveRun | None, event: gr.EventData, request: gr.Request
) -> RunView:
    """Show the run scored against the corrected or the source reference; conflicting corrections are not applied.

    For a blind reviewer only their own corrections apply. A run that was replaced meanwhile is not shown again.
    """
    run, other = (live.run, live.other) if live else (None, None)
    sample = reviews.sample(run.clip.video_id, reference=digest_reference(run.clip)) if run else None
    if run is None or sample is None or run.clip.sample is None:
        return show_status("There is no run with a reference to score: press Run.", is_problem=True)
    if live is not None and live.increments is not None:
        return show_status("The run is still streaming. It is scored against the chosen reference when it ends.")
    if not read_event(event, "corrected"):
        return show_run(run, "Scored against the source reference.", encode=context.encode, other=other)
    is_blind = reviews.is_blind or bool(read_event(event, "is_blind"))
    only = (signed_in(request) or typed_name(read_event(event, "reviewer"))) if is_blind else None
    corrections = read_review(reviews.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    corrected = apply_corrections(sample, corrections)
    changed, conflicts = corrected.num_changed, len(corrected.conflicts)
    status = f"Scored against the corrected reference; turns changed: {changed}, conflicts: {conflicts}."
    view = show_run(run, status, encode=context.encode, corrected=corrected, other=other)
    return view if live and live.run is run else judge_against(context, reviews, live, event, request)


def _stream_frames(context: AppContext, live: LiveRun, run: Run, *, is_unscored: bool) -> Generator[RunView]:
    damages: list[str] = []
    frames = _checked_frames(run.clip, damages, max_duration_s=context.max_duration_s)
    features = encode(context.checkpoint, frames, batch_size=FRAMES_PER_PASS)
    if _can_record(context, run):
        live.recording = Recording(context.checkpoint, features, task=run.task, config=run.config)
        outputs = live.recording.run()
    else:
        outputs = Streamer(context.checkpoint, run.config).run(features, run.task)
    began = time.perf_counter()
    # The stream stays registered until the whole run is shown: the player may still fetch the last frames.
    increments = context.streams.begin(run)
    reached = yield from _show_progress(live, run, outputs, increments)
    wall_s = time.perf_counter() - began
    if live.is_cancelled:
        return
    context.recordings.keep(live)
    live.run = run = replace(run, outputs=reached, is_finished=True)
    context.recent.keep_run(run)
    messages = [
        f"Done: {len(run.outputs)} frames in {wall_s:.1f} s ({len(run.outputs) / wall_s:.0f} frames/s).",
        *damages,
    ]
    if live.linked_digest not in (None, run.digest):
        messages.append("The link refers to a different run: the checkpoint, task, settings or version differ.")
    is_problem = len(messages) > 1
    if is_unscored:
        messages.append("No scores: the steps differ from those of the reference.")
    if run.clip.content_digest and context.model_warning:
        messages.append(context.model_warning)
    yield show_run(run, " ".join(messages), encode=context.encode, is_problem=is_problem)


def _show_progress(
    live: LiveRun, run: Run, outputs: Generator[FrameOutput], increments: StreamIncrements
) -> Generator[RunView, None, tuple[FrameOutput, ...]]:
    """Yield progress views whose cost does not grow with the run; return the outputs so far."""
    live.increments = increments
    began = time.perf_counter()
    shown_at = -math.inf
    try:
        with closing(outputs):
            for output in map(check_probs, outputs):
                if live.is_cancelled:
                    break
                increments.add(output)
                now = time.perf_counter()
                if now - shown_at >= STATUS_INTERVAL_S:
                    is_first, shown_at = shown_at == -math.inf, now
                    rate = None if is_first else len(increments.outputs) / (now - began)
                    yield show_running(run.clip, increments, rate=rate)
    finally:
        reached = tuple(increments.outputs)
        live.run, live.increments = replace(run, outputs=reached), None
    return reached


def _can_record(context: AppContext, run: Run) -> bool:
    """Return whether the frame features of a run are small enough for a recording."""
    model = context.checkpoint.model
    return run.clip.num_frames * model.tokens_per_frame * model.feature_dim <= MAX_RECORDED_VALUES


def _checked_frames(clip: Clip, damages: list[str], *, max_duration_s: float) -> Iterator[Frame]:
    """Yield the frames of a clip, and append decoder warnings to ``damages``.

    Raises ``VideoError`` if an upload turns out longer than the limit, whatever its header declares.
    """

    def on_damage(warning: str) -> None:
        damages.append(as_sentence(warning))

    for frame in read_frames(clip.path, fps=clip.fps, excerpt=clip.excerpt, on_damage=on_damage):
        if clip.content_digest and frame.time_s > max_duration_s:
            raise VideoError(f"{clip.path}: is longer than the limit of {format_clock(max_duration_s)}; cut it")
        yield frame

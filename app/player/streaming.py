"""Event handlers that stream a run, from the click on Run to its end, or score it against a different reference.

They yield ``PlayerView`` frame by frame, so that a run can be watched and stopped. The player fetches the frames itself
(``app.window.increments``), at most every 0.4 s.
"""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import partial

import gradio as gr

from stepscope.app.controls.run_inputs import read_strategy
from stepscope.app.controls.widgets import Pace
from stepscope.app.core.plan import read_features, stream_plan
from stepscope.app.core.references import digest_reference
from stepscope.app.core.run import Run, TaskText, analyze_run
from stepscope.app.formatting import as_sentence, format_rate
from stepscope.app.player.branches import begin_branch, can_record
from stepscope.app.player.commands import Against
from stepscope.app.player.proposals import ask_for_steps, describe_proposal, needs_proposal
from stepscope.app.player.views import OTHER_STEPS, PlayerView, show_run, show_running, show_status
from stepscope.app.review_store.store import read_review
from stepscope.app.server.identity import signed_in, typed_name
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.increments import StreamIncrements
from stepscope.app.window.landing import FIRST_FROM_START, STAY
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import Thresholds, read_threshold
from stepscope.engine.errors import EngineError
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, check_probs, is_decision
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import OnDamage
from stepscope.eval.annotations.corrected_samples import CorrectedSample, apply_corrections
from stepscope.eval.data.samples import Sample

STATUS_INTERVAL_S = 1.0
"""Minimum time between updates of the status line and progress bar: each one triggers a layout of the whole page."""


def stream_run(
    context: AppContext,
    window: Window,
    goal: str,
    steps: str,
    user_turns: str,
    speak_threshold: float | None,
    update_threshold: float | None,
    strategy: str | None = None,
) -> Generator[PlayerView]:
    """Stream the video through the model and show its outputs as they arrive; nothing without a queued run.

    Thresholds that were requested while the run was queued apply; later ones are left to ``app.player.reruns``.
    """
    live, clip = window.live, window.clip
    if live is None or live.is_started:
        yield PlayerView()
        return
    live.is_started = True
    try:
        if live.question is not None:
            live.run = live.question.run
        elif live.branch is not None and live.run is not None:
            pass  # the branch of a run that is shown
        elif clip is not None:
            requested = live.requested or Thresholds(
                speak=read_threshold(speak_threshold, "speak"), update=read_threshold(update_threshold, "update")
            )
            if needs_proposal(context, clip, steps):
                yield show_status("Asking the model for the steps.")
                steps = ask_for_steps(context, clip, goal)
                yield PlayerView(show_status(describe_proposal(steps)), steps=steps)
            typed_task = TaskText(goal=goal, steps=steps, user_turns=user_turns)
            chosen = read_strategy(strategy, context.config.context_strategy)
            live.run = context.prepare_run(clip, typed_task, requested, strategy=chosen).with_letter_beside(live.other)
        else:
            raise ValueError("there is no video; choose a bundled one or upload one, then press Run")
        if live.branch is not None:
            yield from begin_branch(context, live, live.branch)
            if live.is_cancelled:
                return
        context.recent.keep_run(live.run)  # a reload while it streams starts it again
        yield from _stream_frames(context, live, live.run)
    except (EngineError, ValueError) as error:
        problem = as_sentence(error)
        if live.run is None:
            yield show_status(problem, is_problem=True)
        else:
            yield show_run(live.run, problem, encode=context.encode, is_problem=True)
    finally:
        live.ended.set()


def judge_against(
    context: AppContext, reviews: ReviewContext, window: Window, asked: Against, request: gr.Request
) -> PlayerView:
    """Show the run scored against the corrected or the source reference; conflicting corrections are not applied.

    For a blind reviewer only their own corrections apply. A run that was replaced meanwhile is not shown again.
    """
    live = window.live
    view = _judge(context, reviews, live, asked, request)
    return view if window.live is live else PlayerView()


def _judge(
    context: AppContext, reviews: ReviewContext, live: LiveRun | None, asked: Against, request: gr.Request
) -> PlayerView:
    run, other = (live.run, live.other) if live else (None, None)
    shown = run
    sample = reviews.sample(run.clip.video_id, reference=digest_reference(run.clip)) if run else None
    if run is None or sample is None or run.clip.sample is None:
        return show_status("There is no run with a reference to score: press Run.", is_problem=True)
    if live is not None and live.increments is not None:
        return show_status("The run is still streaming. It is scored against the chosen reference when it ends.")
    run = _show_own_reasons(reviews, run, asked, request)
    if not asked.corrected:
        status = (
            "Not scored: its turns are a copy of its own."
            if sample.is_copied
            else "Scored against the source reference."
        )
        return show_run(run, status, encode=context.encode, other=other)
    corrected = read_corrected(reviews, sample, asked, request)
    if not corrected.sample.has_reference:
        status = "Not scored: no turn is corrected yet. Correct the copies of the model's own turns first."
        return show_run(run, status, encode=context.encode, corrected=corrected, other=other)
    changed, conflicts = corrected.num_changed, len(corrected.conflicts)
    status = f"Scored against the corrected reference; turns changed: {changed}, conflicts: {conflicts}."
    view = show_run(run, status, encode=context.encode, corrected=corrected, other=other)
    return view if live and live.run is shown else _judge(context, reviews, live, asked, request)


def _show_own_reasons(reviews: ReviewContext, run: Run, asked: Against, request: gr.Request) -> Run:
    """Return a run of a blind page that is sent with the reasons of the failures that the reviewer has judged."""
    if run.kept is None or run.kept.shown is None:
        return run
    name = signed_in(request) or typed_name(asked.reviewer)
    found = read_review(reviews.store, video_id=run.clip.video_id, only=name or "").events
    judged = frozenset(one.event.key for one in found if any(said.verdict for said in one.opinions))
    return replace(run, kept=replace(run.kept, shown=judged))


def _stream_frames(context: AppContext, live: LiveRun, run: Run) -> Generator[PlayerView]:
    damages: list[str] = []

    def add_damage(warning: str) -> None:
        damages.append(as_sentence(warning))

    asked = AskedQuestions(fps=run.config.fps)
    live.asked = asked if live.branch is None else None  # the questions of a branch are changes
    # The stream stays registered until the whole run is shown: the player may still fetch the last frames.
    beside = analyze_run(live.other, context.encode) if live.branch is not None and live.other is not None else None
    other = (live.other, beside.judged) if beside is not None else None
    increments = context.streams.begin(run, user_turns=asked.turns, other=other)
    outputs = _begin_outputs(context, live, run, asked, increments, add_damage)
    began = time.perf_counter()
    yield from _show_progress(context, live, run, outputs, increments)
    wall_s = time.perf_counter() - began
    if live.is_cancelled:
        return
    assert live.run is not None
    context.recordings.keep(live)
    saved = context.find_saved(live.run.clip)
    kept = saved.kept if saved is not None else live.run.kept  # the same run as the saved one has its diagnosis
    live.run = run = replace(live.run, is_finished=True, kept=kept)
    context.recent.keep_run(run)
    frames = format_count(len(run.outputs), "frame")
    problems = [
        *damages,
        *(f"The question came after the last frame; ask it again: {text!r}." for text in asked.take_waiting()),
    ]
    if live.linked_digest not in (None, run.digest):
        problems.append("The link refers to a different run: the checkpoint, task, settings or version differ.")
    pace = format_rate(len(run.outputs) / wall_s)
    done = f"Done: {frames} in {wall_s:.{1 + (wall_s < 1)}f} s ({pace}){run.describe_lower_run(live.other)}."
    messages = [done, *problems]
    if run.is_untrained and not any(map(is_decision, run.outputs)):
        messages.append(context.untrained_silence)
    if run.has_other_steps:
        messages.append(OTHER_STEPS)
    is_new = bool(run.clip.content_digest) and run.branch is None  # a bundled one is at its failure already
    yield show_run(
        run,
        " ".join(messages),
        encode=context.encode,
        is_problem=bool(problems),
        other=live.other,
        destination=FIRST_FROM_START if is_new else STAY,
    )


def _begin_outputs(
    context: AppContext,
    live: LiveRun,
    run: Run,
    asked: AskedQuestions,
    increments: StreamIncrements,
    on_damage: OnDamage,
) -> Generator[FrameOutput]:
    """Return the generator of the outputs; the run has a recording if its features fit into one."""
    question = live.question
    plan = context.plan_run(run, len(question.known) if question is not None else None)
    if live.branch is not None:
        assert live.recording is not None
        return live.recording.run(increments.show_text)
    if question is not None and question.recording is not None:
        live.recording = question.recording.with_question(question.turn, asked=asked)
    elif can_record(context, run):
        features = read_features(context.checkpoint, plan, on_damage)
        live.recording = Recording(
            context.checkpoint,
            features,
            task=run.task,
            config=run.config,
            asked=asked,
            known=question.known if question is not None else (),
        )
    elif context.remote is not None:
        return context.remote.stream(plan, on_damage)
    else:
        return stream_plan(context.checkpoint, plan, on_damage, asked=asked, on_text=increments.show_text)
    return live.recording.run(increments.show_text)


def _show_progress(
    context: AppContext, live: LiveRun, run: Run, outputs: Generator[FrameOutput], increments: StreamIncrements
) -> Generator[PlayerView]:
    """Yield progress views whose cost does not grow with the run; the run of ``live`` then has the outputs so far."""
    live.increments = increments
    began, pace, is_first = time.perf_counter(), Pace(STATUS_INTERVAL_S), True
    try:
        with closing(outputs):
            for output in map(partial(check_probs, decides_at=run.config.decides_at), outputs):
                if live.is_cancelled:
                    break
                increments.add(output)
                if pace.is_due():
                    rate = None if is_first else len(increments.outputs) / (time.perf_counter() - began)
                    is_first = False
                    yield show_running(run.clip, increments, rate=rate, usage=context.describe_usage())
    finally:
        reached = tuple(increments.outputs[:])
        asked = () if live.asked is None else tuple(live.asked.turns)
        task = replace(run.task, questions=(*run.task.questions, *asked))
        live.run, live.increments = replace(run, task=task, outputs=reached), None


def read_corrected(reviews: ReviewContext, sample: Sample, asked: Against, request: gr.Request) -> CorrectedSample:
    """Return the corrected reference of a sample. For a blind reviewer only their own corrections apply."""
    is_blind = reviews.is_blind or asked.is_blind
    only = (signed_in(request) or typed_name(asked.reviewer)) if is_blind else None
    corrections = read_review(reviews.store, video_id=sample.video_id, only=only).corrections.get(sample.video_id, ())
    return apply_corrections(sample, corrections)

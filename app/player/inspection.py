"""Inspection of one frame of the displayed run: prompt, tokens with log-probabilities, and evidence on request."""

from collections import deque
from collections.abc import Generator
from dataclasses import asdict, replace
from typing import Any, Final

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.plan import StreamPlan
from stepscope.app.core.run import Kept, Run
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.formatting import as_sentence
from stepscope.app.player.branches import make_recording
from stepscope.app.player.commands import FrameRequest
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.app.window.reasons import pack_evidence
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.errors import EngineError
from stepscope.engine.inspection import FrameInspection
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.plurals import format_count
from stepscope.engine.records import is_same
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample
from stepscope.eval.diagnosis.evidence import explain_frame as find_evidence
from stepscope.eval.diagnosis.evidence import keep_evidence

_FORGOTTEN: Final = "the context of this branch is no longer kept; press Run from here again in What if"


def inspect_run(context: AppContext, window: Window, asked: FrameRequest) -> dict[str, Any]:
    """Return the inspection of a frame as JSON values, or the reason of a failure.

    The fields are ``run``, ``frame``, and either ``error`` or the fields of ``pack_inspection``.
    """
    frame = asked.frame
    key = _name_answer(window, frame)
    try:
        live, run = _find_frame(window, frame)
        if live.recording is not None and tuple(live.recording.outputs) == run.outputs:
            found = live.recording.inspect(frame)
        elif run.model_digest != context.checkpoint.digest:
            raise ValueError("this run was made with a different checkpoint: its tokens cannot be inspected here")
        elif run.branch is not None:
            raise ValueError(_FORGOTTEN)
        else:
            plan = StreamPlan(clip=run.clip, task=run.task, config=run.config, num_frames=frame + 1)
            found = context.inspect(plan, run.outputs)
    except (EngineError, ValueError) as error:
        return {**key, "error": as_sentence(error)}
    return {**key, **pack_inspection(found)}


def explain_frame(
    context: AppContext, batches: BatchContext, window: Window, asked: FrameRequest
) -> Generator[dict[str, Any]]:
    """Yield the evidence of the run as JSON values, with that for the decision at a frame, or an error.

    The first lacks texts, patches and earlier frames, and ``is_whole``. The whole is kept with the run, and of a run in
    a folder also in ``VIDEO.evidence.json``.
    """
    frame = asked.frame
    key = _name_answer(window, frame)
    try:
        live, run = _find_frame(window, frame)
        recording = _find_recording(context, live, run)
        if not is_same(recording.outputs[frame], run.outputs[frame]):
            raise ValueError("the model decides otherwise here than in this run; run it again on this device")
        clip = run.clip
        bare = Sample(video_id=clip.video_id, fps=run.config.fps, num_frames=clip.num_frames, start_s=clip.start_s)
        sample = clip.sample or replace(bare, has_reference=False)
        kept = run.kept if run.kept is not None and run.is_kept else Kept(digest=run.digest)
        others = [one for one in kept.evidence if one.frame_index != frame]
        for part, found in enumerate(find_evidence(recording, replace(sample, video_path=clip.path), frame)):
            evidence = tuple(sorted((*others, found), key=lambda one: one.frame_index))
            shown = replace(run, kept=replace(kept, evidence=evidence))
            yield {**key, "decisions": pack_evidence(shown), "is_whole": part > 0}
        if run.name not in ("", BUNDLED_NAME) and clip.sample is not None:
            keep_evidence(batches.folder(run.name), clip.sample, found)
        live.run = shown
    except (EngineError, ValueError, OSError) as error:
        yield {**key, "error": as_sentence(error)}


def _name_answer(window: Window, frame: int) -> dict[str, Any]:
    """Return the run and the frame that an answer is about."""
    return {"run": window.run.digest if window.run is not None else "", "frame": frame}


def _find_frame(window: Window, frame: int) -> tuple[LiveRun, Run]:
    live, run = window.find_finished("inspect")
    if not 0 <= frame < len(run.outputs):
        raise ValueError(f"there is no such frame; the run has {format_count(len(run.outputs), 'frame')}")
    return live, run


def _find_recording(context: AppContext, live: LiveRun, run: Run) -> Recording:
    """Return the recording of a finished run, which is made again unless it is kept."""
    kept = live.recording
    if kept is not None and (tuple(kept.outputs) == run.outputs or _is_made_again(kept, run)):
        return kept
    if run.branch is not None:
        raise ValueError(_FORGOTTEN)
    recording = make_recording(context, run)
    live.recording = recording
    deque(recording.run(), maxlen=0)
    context.recordings.keep(live)
    return recording


def _is_made_again(recording: Recording, run: Run) -> bool:
    """Return whether a recording is of a plain run: it has its texts and states, with other times of the model."""
    is_plain = run.branch is None and recording.intervention == Intervention()
    is_alike = (recording.task, recording.config, len(recording.outputs)) == (run.task, run.config, len(run.outputs))
    return is_plain and is_alike and all(map(is_same, recording.outputs, run.outputs))


def pack_inspection(found: FrameInspection) -> dict[str, Any]:
    """Return an inspection as JSON values; unpaired surrogates become ``?``."""
    return {
        "prompt": replace_surrogates(found.prompt),
        "prompt_tokens": found.prompt_tokens,
        "first_frame": found.first_frame,
        "earlier_tokens": found.earlier_tokens,
        "forgotten": asdict(found.forgotten) if found.forgotten is not None else None,
        "speak_prob": found.decision.speak_prob,
        "update_prob": found.decision.update_prob,
        "tokens": [
            {
                "id": token.token_id,
                "text": replace_surrogates(token.text),
                "logprob": token.logprob,
                "best": replace_surrogates(token.best_text),
                "best_logprob": token.best_logprob,
                "is_chosen": token.is_chosen,
                "is_fed": token.is_fed,
            }
            for token in found.tokens
        ],
    }

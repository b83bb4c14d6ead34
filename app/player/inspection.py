"""Inspection of one frame of the displayed run: the prompt, and the tokens with their log-probabilities."""

from dataclasses import asdict
from typing import Any

import gradio as gr

from stepscope.app.controls.widgets import read_event
from stepscope.app.core.plan import StreamPlan
from stepscope.app.formatting import as_sentence
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun
from stepscope.engine.errors import EngineError
from stepscope.engine.inspection import FrameInspection
from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.plurals import format_count


def inspect_run(context: AppContext, live: LiveRun | None, event: gr.EventData) -> dict[str, Any]:
    """Return the inspection of the event's ``frame`` as JSON values, or the reason of a failure.

    The fields are ``run``, ``frame``, and either ``error`` or the fields of ``pack_inspection``.
    """
    run = live.run if live is not None else None
    frame = read_event(event, "frame")
    key = {"run": run.digest if run is not None else "", "frame": frame if isinstance(frame, int) else None}
    try:
        if live is None or run is None or not run.outputs or live.increments is not None:
            raise ValueError("there is no finished run to inspect; press Run and wait until it ends")
        if not isinstance(frame, int) or not 0 <= frame < len(run.outputs):
            raise ValueError(f"there is no such frame; the run has {format_count(len(run.outputs), 'frame')}")
        if live.recording is not None and tuple(live.recording.outputs) == run.outputs:
            found = live.recording.inspect(frame)
        elif run.model_digest != context.checkpoint.digest:
            raise ValueError("this run was made with a different checkpoint: its tokens cannot be inspected here")
        elif run.branch is not None:
            raise ValueError("the context of this branch is no longer kept; press Run from here again in What if")
        else:
            plan = StreamPlan(clip=run.clip, task=run.task, config=run.config, num_frames=frame + 1)
            found = context.inspect(plan, run.outputs)
    except (EngineError, ValueError) as error:
        return {**key, "error": as_sentence(error)}
    return {**key, **pack_inspection(found)}


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

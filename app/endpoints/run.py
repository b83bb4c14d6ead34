"""The endpoint that runs the model on a video."""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from gradio.data_classes import FileData

from stepscope.app.context import AppContext
from stepscope.app.core.places import run_url_params
from stepscope.app.core.plan import StreamPlan
from stepscope.app.core.run import Run, TaskText, analyze_run, write_task
from stepscope.app.core.videos import Clip, read_upload
from stepscope.app.endpoints.endpoint import make_link, uploaded_path
from stepscope.app.formatting import as_sentence
from stepscope.engine.config import Thresholds, read_threshold
from stepscope.engine.records import FrameOutput, check_probs
from stepscope.eval.data.samples import build_task
from stepscope.eval.metrics.score import score_counts

PROGRESS_S: Final = 1.0
"""Minimum time between two progress messages, in seconds."""


def run_video(
    context: AppContext,
    video: str | FileData,
    typed_task: TaskText,
    speak_threshold: float,
    update_threshold: float,
) -> Generator[dict[str, Any]]:
    """Stream a video through the model; yield progress, then the whole run. The page can open the run by its link."""
    clip = _find_clip(context, video)
    if clip.sample is not None and not any((typed_task.goal, typed_task.steps, typed_task.user_turns)):
        typed_task = write_task(build_task(clip.sample))
    thresholds = Thresholds(
        speak=read_threshold(speak_threshold, "speak"), update=read_threshold(update_threshold, "update")
    )
    run = context.prepare_run(clip, typed_task, thresholds)
    warnings: list[str] = []
    outputs: list[FrameOutput] = []
    plan = StreamPlan(clip=run.clip, task=run.task, config=run.config, max_duration_s=context.max_duration_s)
    shown = time.monotonic()
    with closing(context.stream(plan, warnings.append)) as stream:
        for output in map(partial(check_probs, decides_at=run.config.decides_at), stream):
            outputs.append(output)
            if time.monotonic() - shown >= PROGRESS_S:
                shown = time.monotonic()
                yield {"is_finished": False, "num_frames": len(outputs), "of_frames": clip.num_frames}
    run = replace(run, outputs=tuple(outputs), is_finished=True)
    context.recent.keep_clip(clip)
    context.recent.keep_run(run)
    if clip.content_digest and context.model_warning:
        warnings.append(context.model_warning)
    yield _describe(context, run, warnings)


def _find_clip(context: AppContext, video: str | FileData) -> Clip:
    if isinstance(video, FileData):
        return read_upload(uploaded_path(video), fps=context.config.fps, max_duration_s=context.max_duration_s)
    return context.bundled_videos.find(video)


def _describe(context: AppContext, run: Run, warnings: list[str]) -> dict[str, Any]:
    analysis = analyze_run(run, context.encode)
    return {
        "is_finished": True,
        "video": run.clip.video_id,
        "run": run.digest,
        "link": make_link(run_url_params(run)),
        "outputs": [asdict(output) for output in run.outputs],
        "scores": None if analysis is None else score_counts(analysis.counts),
        "warnings": [as_sentence(warning) for warning in warnings],
    }

"""The endpoints about results: scores of outputs, and saved runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradio.data_classes import FileData

from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.places import run_url_params
from stepscope.app.core.references import check_size
from stepscope.app.core.run import analyze_run
from stepscope.app.endpoints.endpoint import make_link, uploaded_path
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS
from stepscope.app.opening.saved_runs import read_saved
from stepscope.app.reviews.review import Review
from stepscope.app.tabs.reviews.import_export import write_zip
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.io.files import to_json
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import Failure, JudgedVideo
from stepscope.eval.metrics.score import VideoAnalysis, analyze_video, score_counts
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder, check_frames

METRICS = ("num_videos", "scores", "intervals", "errors", "warnings")
"""The parts of ``metrics.json`` that the endpoint returns."""


def score_run_folder(batches: BatchContext, name: str) -> dict[str, Any]:
    """Return the scores of a run folder with their intervals."""
    folder = _find_run(batches, name)
    try:
        metrics = read_metrics(folder.path)
    except FileNotFoundError as error:
        raise ValueError(f"the run {name} has no scores yet; wait for its end") from error
    return {"run": name, **{part: metrics[part] for part in METRICS}}


def score_outputs(
    context: AppContext, outputs: Sequence[Mapping[str, Any]], reference: FileData | None, video: str
) -> dict[str, Any]:
    """Return the scores and failures of frame outputs against a bundled or an uploaded reference."""
    sample = _find_reference(context, reference, video)
    read = tuple(_read_output(number, output) for number, output in enumerate(outputs))
    if not read:
        raise ValueError("there are no outputs to score; give one for each frame")
    check_frames("outputs", read, sample)
    whole = fill_legality(read, initial_state(sample.steps, sample.initial_state))
    return {"video": sample.video_id, **_describe(sample, whole, analyze_video(sample, whole, encode=context.encode))}


def open_run(context: AppContext, batches: BatchContext, name: str, video: str, time_s: float) -> dict[str, Any]:
    """Return the link to a moment of a saved run, its task, scores and failures."""
    run = read_saved(context, batches, name, video)
    if not 0 <= time_s <= run.clip.duration_s:
        raise ValueError(f"time_s must be between 0 and {run.clip.duration_s:g}; got {time_s:g}")
    analysis, sample = analyze_run(run, context.encode), run.clip.sample
    scored: dict[str, Any] = {"scores": None, "failures": []}
    if analysis is not None and sample is not None:
        scored = _describe(sample, run.outputs, analysis)
    return {
        "link": make_link({**run_url_params(run), "t": str(round(time_s, 3))}),
        "video": video,
        "goal": run.task.goal,
        "steps": [asdict(step) for step in run.task.steps],
        "num_frames": len(run.outputs),
        "duration_s": run.clip.duration_s,
        "settings": asdict(run.config),
        **scored,
    }


def export_run(batches: BatchContext, review: Review, name: str, video: str, file_format: str, *, folder: Path) -> Path:
    """Write a saved run with its reviews as a zip file into an empty folder; return its path."""
    if file_format not in EXPORT_FORMATS:
        raise ValueError(f"there is no format {file_format!r}; choose one of {', '.join(EXPORT_FORMATS)}")
    run = _find_run(batches, name)
    split = batches.split_of(run.settings() or {})
    if split is None:
        raise ValueError(f"the run {name} is of a split that this page does not have")
    samples = [sample for sample in split.samples if video in ("", sample.video_id)]
    if not samples:
        raise ValueError(f"there is no video {video!r} in the run {name}")
    videos = gather_videos(samples, review=review, run=run)
    return write_zip(folder, videos, content=f"everything, as {file_format}", split=split.path.stem).path


def _find_run(batches: BatchContext, name: str) -> RunFolder:
    if name not in batches.run_names():
        raise ValueError(f"there is no run {name!r} on this page")
    return RunFolder(batches.folder(name))


def _find_reference(context: AppContext, reference: FileData | None, video: str) -> Sample:
    if reference is None:
        sample = context.bundled_videos.find(video).sample
        assert sample is not None
        return sample
    path = uploaded_path(reference)
    check_size(path)
    samples = [sample for sample in read_samples(path) if video in ("", sample.video_id)]
    if len(samples) != 1:
        raise ValueError(f"the reference has {len(samples)} videos that fit; name one of its videos")
    return samples[0]


def _read_output(number: int, output: Mapping[str, Any]) -> FrameOutput:
    try:
        return FrameOutput.from_json(to_json(output))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"outputs[{number}] is not the output of a frame: {error}") from error


def _describe(sample: Sample, outputs: Sequence[FrameOutput], analysis: VideoAnalysis) -> dict[str, Any]:
    judged = analysis.judged
    return {
        "scores": score_counts(analysis.counts),
        "failures": [_describe_failure(sample, outputs, judged, failure) for failure in judged.failures],
    }


def _describe_failure(
    sample: Sample, outputs: Sequence[FrameOutput], judged: JudgedVideo, failure: Failure
) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "time_s": outputs[failure.frame_index].time_s,
        "text": None if failure.turn is None else judged.turns[failure.turn].text,
        "reference": None if failure.reference is None else sample.turns[failure.reference].text,
        "steps": list(failure.step_ids),
    }

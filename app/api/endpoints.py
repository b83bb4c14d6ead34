"""The named endpoints of the page, for programs: run a video, score outputs, open and export runs.

Their docstrings and types are shown to programs by ``/gradio_api/info``. Arguments are untrusted and checked by their
types, and errors are sentences.
"""

import inspect
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial, wraps
from inspect import getdoc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args, get_type_hints

import gradio as gr
from gradio.data_classes import FileData
from gradio.processing_utils import get_upload_folder
from pydantic import TypeAdapter, ValidationError

from stepscope.app.controls.widgets import MODEL_QUEUE
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.places import make_link, run_url_params
from stepscope.app.core.references import check_outputs, check_size, check_turns
from stepscope.app.core.run import Run, TaskText, analyze_run, write_task
from stepscope.app.core.videos import Clip, read_upload
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS
from stepscope.app.formatting import as_sentence
from stepscope.app.player.opening import read_saved
from stepscope.app.reviews.query import NO_RUN, ReviewQuery, read_visible_review, write_zip
from stepscope.app.server.hosts import ENDPOINTS
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.engine.config import Thresholds, read_threshold
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import replace_nan, replace_surrogates_in, to_json
from stepscope.engine.records import FrameOutput, check_probs
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.metrics.score import VideoAnalysis, analyze_video, score_counts
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import check_frames


def endpoint(function: Callable[..., Generator[Any]]) -> Callable[..., Generator[Any]]:
    """Return a generator function for ``gr.api``, which checks arguments by their types and yields JSON values.

    Errors with a message for users become ``gr.Error``, whose message reaches the client.
    """
    hints = get_type_hints(function)
    (returned, *_) = get_args(hints.pop("return"))
    checks = {name: TypeAdapter(hint) for name, hint in hints.items() if hint is not gr.Request}

    @wraps(function)
    def call(*values: Any) -> Generator[Any]:
        names = list(inspect.signature(function).parameters)
        try:
            checked = {name: _check(name, value, checks) for name, value in zip(names, values, strict=True)}
            for result in function(**checked):
                yield replace_surrogates_in(replace_nan(result))
        except (EngineError, ValueError, OSError) as error:
            raise gr.Error(as_sentence(error), print_exception=False) from error

    signature: Any = inspect.signature(function).replace(return_annotation=returned)
    vars(call).update(__signature__=signature, __annotations__={**hints, "return": returned})
    return call


def _check(name: str, value: Any, checks: Mapping[str, TypeAdapter[Any]]) -> Any:
    """Return a value of the declared type. Raises ``ValueError`` with the name of the argument."""
    if name not in checks:
        return value
    try:
        return checks[name].validate_python(value)
    except ValidationError as error:
        raise ValueError(f"the argument {name!r} is not valid: {error.errors()[0]['msg']}") from error


def uploaded_path(file: FileData) -> Path:
    """Return the path of a file that a client uploaded. Raises ``ValueError`` for files of this machine."""
    path = Path(file.path).resolve()
    if not path.is_relative_to(Path(get_upload_folder()).resolve()) or not path.is_file():
        raise ValueError("the file was not uploaded to this page; with gradio_client, pass handle_file(path)")
    return path


PROGRESS_S: Final = 1.0


def _find_clip(context: AppContext, video: str | FileData) -> Clip:
    if isinstance(video, FileData):
        return read_upload(uploaded_path(video), fps=context.config.fps, max_duration_s=context.max_duration_s)
    return context.bundled_videos.find(video)


def _describe_run(context: AppContext, run: Run, warnings: list[str]) -> dict[str, Any]:
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


METRICS = ("num_videos", "scores", "intervals", "errors", "warnings")
"""The parts of ``metrics.json`` that the endpoint returns."""


def score_run_folder(batches: BatchContext, name: str) -> dict[str, Any]:
    """Return the scores of a run folder with their intervals."""
    folder = batches.need_run(name)
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
    check_outputs(read)
    check_frames("outputs", read, sample)
    whole = fill_legality(read, initial_state(sample.steps, sample.initial_state))
    return {
        "video": sample.video_id,
        **_describe_scores(sample, whole, analyze_video(sample, whole, encode=context.encode)),
    }


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
    check_turns(samples[0])
    return samples[0]


def _read_output(number: int, output: Mapping[str, Any]) -> FrameOutput:
    try:
        return FrameOutput.from_json(to_json(output))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"outputs[{number}] is not the output of a frame: {error}") from error


def _describe_scores(sample: Sample, outputs: Sequence[FrameOutput], analysis: VideoAnalysis) -> dict[str, Any]:
    judged = analysis.judged
    failures = [
        {
            "kind": failure.kind,
            "time_s": outputs[failure.frame_index].time_s,
            "text": None if failure.turn is None else judged.turns[failure.turn].text,
            "reference": None if failure.reference is None else sample.turns[failure.reference].text,
            "steps": list(failure.step_ids),
        }
        for failure in judged.failures
    ]
    return {"scores": score_counts(analysis.counts), "failures": failures}


RESULTS_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "results", "concurrency_limit": 2}


def make_endpoints(context: AppContext, batches: BatchContext, reviews: ReviewContext) -> None:
    """Register the endpoints of ``ENDPOINTS`` in the page that is being built."""
    functions = {
        "run": _make_run(context),
        "score": _make_score(context, batches),
        "open": _make_open(context, batches),
        "export": _make_export(batches, reviews),
    }
    for name in ENDPOINTS:
        queue = MODEL_QUEUE if name == "run" else RESULTS_QUEUE
        gr.api(
            endpoint(functions[name]),
            api_name=name,
            api_description=getdoc(functions[name]),
            **{**queue, "api_visibility": "public"},
        )


def _make_run(context: AppContext) -> Callable[..., Generator[dict[str, Any]]]:
    speak, update = context.config.speak_threshold, context.config.update_threshold

    def run(
        video: str | FileData,
        goal: str = "",
        steps: str = "",
        user_turns: str = "",
        speak_threshold: float = speak,
        update_threshold: float = update,
    ) -> Generator[dict[str, Any]]:
        """Stream a video through the model; return one output per frame, and the link that opens the run.

        Args:
            video: Name of a bundled video, or a video file.
            goal: Goal of the task; a bundled video without goal, steps and user turns has its own task.
            steps: Steps of the task, one per line, such as "S1: attach the wheel".
            user_turns: Words of the user, one turn per line, such as "12.5: What is next?".
            speak_threshold: The assistant speaks at a greater probability, from 0 to 1.
            update_threshold: The assistant updates the state at a greater probability, from 0 to 1.
        """
        clip = _find_clip(context, video)
        typed_task = TaskText(goal=goal, steps=steps, user_turns=user_turns)
        if clip.sample is not None and not any((goal, steps, user_turns)):
            typed_task = write_task(build_task(clip.sample))
        thresholds = Thresholds(
            speak=read_threshold(speak_threshold, "speak"), update=read_threshold(update_threshold, "update")
        )
        made = context.prepare_run(clip, typed_task, thresholds)
        warnings, outputs = list[str](), list[FrameOutput]()
        shown = time.monotonic()
        with closing(context.stream(context.plan_run(made), warnings.append)) as stream:
            for output in map(partial(check_probs, decides_at=made.config.decides_at), stream):
                outputs.append(output)
                if time.monotonic() - shown >= PROGRESS_S:
                    shown = time.monotonic()
                    yield {"is_finished": False, "num_frames": len(outputs), "of_frames": clip.num_frames}
        made = replace(made, outputs=tuple(outputs), is_finished=True)
        context.recent.keep_clip(clip)
        context.recent.keep_run(made)
        if warning := context.warn_of_model(clip):
            warnings.append(warning)
        yield _describe_run(context, made, warnings)

    return run


def _make_score(context: AppContext, batches: BatchContext) -> Callable[..., Generator[dict[str, Any]]]:
    def score(
        run: str = "", outputs: list[dict[str, Any]] | None = None, video: str = "", reference: FileData | None = None
    ) -> Generator[dict[str, Any]]:
        """Return the scores of a saved run, or of the outputs of one video against its reference.

        Args:
            run: Name of a saved run; its split's scores have 95 % intervals. Leave it empty to score outputs.
            outputs: Outputs of a video, one per frame from the first on, as the endpoint run returns them.
            video: Name of the bundled video, or of a video of the reference file.
            reference: Reference file of the outputs; without it, that of the bundled video.
        """
        if bool(run) == (outputs is not None):
            raise ValueError("give either run, or outputs with video or reference")
        yield score_run_folder(batches, run) if outputs is None else score_outputs(context, outputs, reference, video)

    return score


def _make_open(context: AppContext, batches: BatchContext) -> Callable[..., Generator[dict[str, Any]]]:
    def open_saved(run: str, video: str, time_s: float = 0.0) -> Generator[dict[str, Any]]:
        """Return the link that opens a video of a saved run in the player, with its task, scores and failures.

        Args:
            run: Name of a saved run.
            video: Name of a video of the run.
            time_s: The moment to open, in seconds.
        """
        found = read_saved(context, batches, run, video)
        if not 0 <= time_s <= found.clip.duration_s:
            raise ValueError(f"time_s must be between 0 and {found.clip.duration_s:g}; got {time_s:g}")
        analysis, sample = analyze_run(found, context.encode), found.clip.sample
        scored: dict[str, Any] = {"scores": None, "failures": []}
        if analysis is not None and sample is not None:
            scored = _describe_scores(sample, found.outputs, analysis)
        yield {
            "link": make_link({**run_url_params(found), "t": str(round(time_s, 3))}),
            "video": video,
            "goal": found.task.goal,
            "steps": [asdict(step) for step in found.task.steps],
            "num_frames": len(found.outputs),
            "duration_s": found.clip.duration_s,
            "settings": found.provenance.config,
            **scored,
        }

    return open_saved


def _make_export(batches: BatchContext, reviews: ReviewContext) -> Callable[..., Generator[FileData]]:
    def export(_request: gr.Request, run: str, video: str = "", file_format: str = "json") -> Generator[FileData]:
        """Return a zip file with the predictions, references, states, verdicts and corrections of a saved run.

        Args:
            run: Name of a saved run.
            video: Name of one video; empty for all videos of the run.
            file_format: csv, json, webvtt, eaf, segments, database, via, videollm-online or dataset.
        """
        query = ReviewQuery(split=None, run=NO_RUN, typed="", is_blind=False, request=_request)
        _, review = read_visible_review(reviews, query)
        if review.only == "":
            raise ValueError("in blind mode only your own reviews are exported: sign in")
        if file_format not in EXPORT_FORMATS:
            raise ValueError(f"there is no format {file_format!r}; choose one of {', '.join(EXPORT_FORMATS)}")
        saved, split = batches.need_run(run), batches.need_split(run)
        samples = [sample for sample in split.samples if video in ("", sample.video_id)]
        if not samples:
            raise ValueError(f"there is no video {video!r} in the run {run}")
        videos, content = gather_videos(samples, review=review, run=saved), f"everything, as {file_format}"
        with TemporaryDirectory(prefix="stepscope-export-") as folder:
            path = write_zip(Path(folder), videos, content=content, split=split.path.stem).path
            yield FileData(path=str(path), orig_name=path.name).model_dump()

    return export

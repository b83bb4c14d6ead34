"""Registers the named endpoints; their docstrings and types are shown to programs by ``/gradio_api/info``."""

from collections.abc import Callable, Generator
from inspect import getdoc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import gradio as gr
from gradio.data_classes import FileData

from stepscope.app.context import AppContext, ReviewContext
from stepscope.app.controls.widgets import MODEL_QUEUE
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.run import TaskText
from stepscope.app.endpoints.endpoint import endpoint
from stepscope.app.endpoints.results import export_run, open_run, score_outputs, score_run_folder
from stepscope.app.endpoints.run import run_video
from stepscope.app.security.routes import ENDPOINTS
from stepscope.app.tabs.reviews.query import NO_RUN, ReviewQuery, read_visible_review

RESULTS_QUEUE: Final[dict[str, Any]] = {"concurrency_id": "results", "concurrency_limit": 2}
"""Options of endpoints that need no model."""


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
        task = TaskText(goal=goal, steps=steps, user_turns=user_turns)
        yield from run_video(context, video, task, speak_threshold, update_threshold)

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
        yield open_run(context, batches, run, video, time_s)

    return open_saved


def _make_export(batches: BatchContext, reviews: ReviewContext) -> Callable[..., Generator[FileData]]:
    def export(_request: gr.Request, run: str, video: str = "", file_format: str = "json") -> Generator[FileData]:
        """Return a zip file with the predictions, references, states, verdicts and corrections of a saved run.

        Args:
            run: Name of a saved run.
            video: Name of one video; empty for all videos of the run.
            file_format: csv, json, webvtt, eaf or dataset.
        """
        query = ReviewQuery(split=None, run=NO_RUN, typed="", is_blind=False, request=_request)
        _, review = read_visible_review(reviews, query)
        if review.only == "":
            raise ValueError("in blind mode only your own reviews are exported: sign in")
        with TemporaryDirectory(prefix="stepscope-export-") as folder:
            path = export_run(batches, review, run, video, file_format, folder=Path(folder))
            yield FileData(path=str(path), orig_name=path.name).model_dump()

    return export

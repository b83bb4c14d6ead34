"""The batch tab without a browser: its context, the start of a run, and the wait for a state."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.batch.new_run import start as new_run
from stepscope.app.batch.new_run.form import NewRunForm
from stepscope.app.batch.selection import Selection
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job, JobQueue
from stepscope.app.core.videos import read_splits
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.worker_messages import Progress
from tests.support.data.batches import SCORING, make_worker_config, no_java
from tests.support.streams.fakes import count_letters


def make_jobs() -> JobQueue:
    """Return a queue that scores with letter counts as embeddings and without Java."""
    return JobQueue(encode=count_letters, scoring=SCORING, make_scorer=no_java)


def make_batches(*splits: Path, checkpoint: Path, runs: Path) -> BatchContext:
    """Return the context of a local page with these splits."""
    return BatchContext(
        jobs=make_jobs(),
        splits=read_splits([], list(splits)),
        runs=runs,
        work=make_worker_config(checkpoint),
        takes_paths=True,
    )


def select(run: str | None, query: str = "", *, order: str = "", **chosen: Any) -> Selection:
    return Selection(run=run, query=query, order=order, **chosen)


def shown_videos(view: Updates) -> list[dict[str, Any]]:
    """Return the videos of the list."""
    videos: list[dict[str, Any]] = json.loads(view.videos)["videos"]
    return videos


def status_of(view: Updates) -> str:
    """Return the status in the row of the shown run."""
    shown = json.loads(view.rows.value)
    row = next(run for run in shown["runs"] if run["name"] == shown["shown"])
    return f"{'⚠ ' if row['is_problem'] else ''}{row['said']}"


def start(batches: BatchContext, **changes: Any) -> Updates:
    form = {
        "split": "split",
        "checkpoint": "",
        "speak": 0.0,
        "update": 0.5,
        "strategy": None,
        "devices": "cpu:1",
        "live": False,
        "name": "a",
    }
    return new_run.start(batches, NewRunForm(**{**form, **changes}), select(None))


def wait_for(batches: BatchContext, name: str, *states: str) -> Job:
    until = time.monotonic() + 300
    while (job := batches.jobs.find(name)) is None or job.state not in states:
        assert time.monotonic() < until, f"{name} is {job.state if job else 'nowhere'}: {job.problem if job else ''}"
        time.sleep(0.05)
    return job


ONE_FRAME_A_SECOND = Progress(num_videos=3, num_finished=0, num_frames=72, num_done=12, elapsed_s=12, workers=())


def endless(monkeypatch: pytest.MonkeyPatch, progress: Progress = ONE_FRAME_A_SECOND) -> threading.Event:
    """Make every batch last until the event is set, with the same progress."""
    go_on = threading.Event()

    def run_batch(split: Split, *_: Any, **__: Any) -> Any:
        while not go_on.is_set():
            yield progress
            time.sleep(0.01)

    monkeypatch.setattr("stepscope.eval.runs.batch.run_batch", run_batch)
    return go_on

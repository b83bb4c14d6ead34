"""The page's context, and runs of one window without a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.display_copies import DisplayCopies
from stepscope.app.core.job_queue import JobQueue
from stepscope.app.core.videos import Clip, read_bundled_videos
from stepscope.app.page import build_page
from stepscope.app.player import streaming, uploads
from stepscope.app.player.views import PlayerView
from stepscope.app.review_store.store import ReviewStore
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.loading import load_model
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.streams.fakes import count_letters


def make_context(checkpoint: Path, manifest: Path, copies: Path) -> AppContext:
    """Return the context of a page with the bundled videos of ``manifest``; converted uploads go to ``copies``."""
    return AppContext(
        checkpoint=load_model(checkpoint, device="cpu"),
        bundled_videos=read_bundled_videos(manifest),
        copies=DisplayCopies(copies),
        encode=count_letters,
        max_duration_s=600,
    )


def make_page(context: AppContext, *, runs: Path, store: ReviewStore) -> gr.Blocks:
    """Return the page of a context, without splits; ``runs`` is the folder of its runs."""
    jobs = JobQueue(encode=count_letters, scoring=ScoreSettings(text_encoder="letters"))
    batches = BatchContext(jobs=jobs, splits={}, runs=runs, work=WorkerConfig(checkpoint="none"), takes_paths=False)
    return build_page(context, batches, ReviewContext(store=store, splits={}))


def open_upload(context: AppContext, path: Path) -> PlayerView:
    """Check an upload, which must be accepted, and return the resulting views."""
    accepted = uploads.check_upload(context, Window(), str(path)).accepted
    assert isinstance(accepted, uploads.Accepted)
    return uploads.show_upload(context, accepted)


def run_through(context: AppContext, clip: Clip | None, **changes: Any) -> LiveRun:
    """Run a video to its end in a new window; return the window."""
    live = LiveRun()
    list(run_views(context, clip, live, **changes))
    return live


def run_views(context: AppContext, clip: Clip | None, live: LiveRun | None, **changes: Any) -> Iterator[PlayerView]:
    boxes = {
        "goal": "build the toy truck",
        "steps": "S1: attach the wheel\nS2: put on the roof\nS3: load the block",
        "user_turns": "",
        "speak_threshold": 0.5,
        "update_threshold": 0.5,
    }
    return streaming.stream_run(context, Window(clip=clip, live=live), **{**boxes, **changes})

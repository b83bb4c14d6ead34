"""What a window of the page works with, and the runs that it makes, without a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.player import streaming, uploads
from app.player.context import Bench
from app.player.session.live_run import LiveRun
from app.player.views import Buttons, ClipView, Page, RunView
from app.transcode import DisplayCopies
from app.videos import Clip, read_demos
from engine.loading import load_model
from tests.support.fakes import count_letters


def make_bench(checkpoint: Path, manifest: Path, copies: Path) -> Bench:
    """Return the bench of a page with these bundled videos, which puts converted uploads into ``copies``."""
    return Bench(
        checkpoint=load_model(checkpoint, device="cpu"),
        demos=read_demos(manifest),
        copies=DisplayCopies(copies),
        encode=count_letters,
        max_duration_s=600,
    )


def views(page: Page) -> tuple[ClipView, RunView, Buttons]:
    return ClipView(*page[:7]), RunView(*page[7:11]), Buttons(*page[11:14])


def open_upload(bench: Bench, path: Path, *, before: Clip | None = None) -> Page:
    """Return what an upload shows that passes its check."""
    accepted = uploads.check_upload(bench, None, before, str(path)).accepted
    assert isinstance(accepted, uploads.Accepted)
    return uploads.show_upload(bench, None, before, accepted)


def run_views(bench: Bench, clip: Clip | None, live: LiveRun | None, **changes: Any) -> Iterator[RunView]:
    boxes = {
        "goal": "build the toy truck",
        "steps": "S1: attach the wheel\nS2: put on the roof\nS3: load the block",
        "user_turns": "",
        "speak_threshold": 0.5,
        "update_threshold": 0.5,
    }
    return streaming.stream(bench, live, clip, **{**boxes, **changes})

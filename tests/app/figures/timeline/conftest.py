from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.figures.timeline.run import TimelineRun
from stepscope.app.tabs.player.figures import to_timeline_run
from tests.support.reviews.played import make_run
from tests.support.streams.fakes import count_letters


@pytest.fixture
def make_timeline(tmp_path: Path) -> Callable[..., TimelineRun]:
    """Return a function that makes the run of ``make_run``, ``text`` in every lane, with or without its reference."""

    def make(text: str = "", *, has_reference: bool = True) -> TimelineRun:
        run = make_run(tmp_path, text=text)
        clip = run.clip if has_reference else replace(run.clip, sample=None)
        return to_timeline_run(replace(run, clip=clip), count_letters)

    return make

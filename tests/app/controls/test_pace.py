"""The pace of handlers that yield views while they work."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.controls import widgets
from stepscope.app.controls.widgets import UPDATE_INTERVAL_S, Pace
from stepscope.app.core.live_run import Cancellable
from stepscope.app.tabs.batch.sweeps import folders
from stepscope.app.tabs.batch.sweeps import handlers as sweeping
from stepscope.eval.sweeps.exact import SweepProgress

STEP_S = 0.01
"""Time between two events of the fast work here."""
NUM_EVENTS = 441


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of the pace by one that a test moves."""
    moved = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(widgets, "time", SimpleNamespace(perf_counter=lambda: moved.now_s))
    return moved


def test_the_first_view_is_due_at_once_unless_it_is_to_wait(clock: SimpleNamespace) -> None:
    soon, later = Pace(0.5), Pace(0.5, due_at_once=False)
    assert (soon.is_due(), later.is_due()) == (True, False)
    clock.now_s = 0.4
    assert (soon.is_due(), later.is_due()) == (False, False)
    clock.now_s = 0.5
    assert (soon.is_due(), later.is_due()) == (True, True)


def test_a_sweep_shows_at_most_two_views_a_second_and_names_each_failed_video(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_sweep(*_: Any, **__: Any) -> Iterator[SweepProgress]:
        for done in range(NUM_EVENTS):
            clock.now_s += STEP_S
            counts = {"num_videos": 2, "num_finished": 0, "num_runs": NUM_EVENTS, "num_done": done, "passes": done}
            is_failure = done == 7  # between two views
            error, video_id = ("the file is damaged", "boat") if is_failure else ("", "tower")
            yield SweepProgress(**counts, num_frames=0, frames_done=0, video_id=video_id, error=error)

    monkeypatch.setattr(sweeping, "run_sweep", run_sweep)
    monkeypatch.setattr(folders, "plan_sweep", lambda *_: SimpleNamespace(
        split=None, work=None, grid=None, folder=None, scoring=None, device="cpu"
    ))  # fmt: skip
    context: Any = SimpleNamespace(encode=None)
    batches: Any = None
    views = list(sweeping.run_points(context, batches, Cancellable(), "a", 21, "cpu"))
    assert len(views) <= 2 + NUM_EVENTS * STEP_S / UPDATE_INTERVAL_S
    assert all("boat failed: the file is damaged." in view.progress for view in views[1:-1])

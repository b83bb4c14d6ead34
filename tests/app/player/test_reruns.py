"""Exact re-runs with new thresholds: the latest request counts, and the display agrees with one run."""

import json
from dataclasses import replace
from typing import Any

import pytest

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.app.player import handlers, reruns, streaming
from stepscope.app.player.commands import ThresholdRequest
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import Thresholds
from tests.support.pages.benches import run_through, run_views


@pytest.fixture
def clip(context: AppContext) -> Clip:
    return context.bundled_videos.find("truck-1")


@pytest.fixture
def live(context: AppContext, clip: Clip) -> LiveRun:
    """Return a window that shows a finished run at 0.5 and 0.5."""
    return run_through(context, clip)


def ask(
    context: AppContext, live: LiveRun | None, speak: float, update: float, *, ticket: int = 1, has_run: bool = True
) -> PlayerView:
    asked = ThresholdRequest(speak=speak, update=update, ticket=ticket, has_run=has_run)
    return reruns.request_thresholds(context, Window(live=live), asked)


def rerun(context: AppContext, live: LiveRun | None) -> PlayerView:
    return list(reruns.rerun(context, Window(live=live)))[-1]


def run_of(live: LiveRun) -> Run:
    assert live.run is not None
    return live.run


def decisions(run: Run) -> list[tuple[Any, ...]]:
    return [(output.response, output.updates, dict(output.dst_state)) for output in run.outputs]


def test_other_thresholds_run_again_exactly_as_from_the_start(context: AppContext, clip: Clip, live: LiveRun) -> None:
    fresh = run_through(context, clip, speak_threshold=0.0, update_threshold=1.0)
    before = decisions(run_of(live))
    assert ask(context, live, 0.0, 1.0).status.value == "Waiting to run again with speak 0, update 1."
    view = rerun(context, live)
    assert view.status.value.startswith("Done: the same run with speak 0, update 1, 12 frames in ")
    assert decisions(run_of(live)) == decisions(run_of(fresh)) != before
    shown = json.loads(view.player)
    assert (shown["thresholds"], shown["answers"]) == ({"speak": 0.0, "update": 1.0}, 1)
    live.recording = None  # too large to keep: the video is read again
    ask(context, live, 0.5, 0.5, ticket=2)
    rerun(context, live)
    assert decisions(run_of(live)) == before


def test_a_run_under_way_for_older_thresholds_ends_and_shows_nothing(context: AppContext, live: LiveRun) -> None:
    ask(context, live, 0.0, 0.5)
    older = reruns.rerun(context, Window(live=live))
    recording = live.recording
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reruns, "UPDATE_INTERVAL_S", 0.0)
        assert next(older).status.value == "Running again with speak 0, update 0.5: 1 of 12 frames."
    ask(context, live, 0.0, 0.85, ticket=2)
    assert list(older) == [PlayerView()]
    assert run_of(live).thresholds == Thresholds(speak=0.5, update=0.5)
    assert live.recording is recording
    assert json.loads(rerun(context, live).player)["thresholds"] == {"speak": 0.0, "update": 0.85}
    assert rerun(context, live) == PlayerView(), "the run has what was asked for last"


def test_a_request_that_was_overtaken_counts_no_more(context: AppContext, live: LiveRun) -> None:
    ask(context, live, 0.7, 0.7, ticket=2)
    assert ask(context, live, 0.2, 0.2, ticket=1) == PlayerView()
    assert live.requested == Thresholds(speak=0.7, update=0.7)


def test_thresholds_asked_for_while_the_first_run_streams_follow_it(
    context: AppContext, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "STATUS_INTERVAL_S", 0.0)
    live = LiveRun()
    streams = run_views(context, clip, live)
    next(streams)
    assert list(vars(ask(context, live, 0.0, 1.0))) == ["rerun"], "the status goes on with the run that streams"
    *_, last = streams
    assert json.loads(last.player)["thresholds"] == {"speak": 0.5, "update": 0.5}
    assert json.loads(rerun(context, live).player)["thresholds"] == {"speak": 0.0, "update": 1.0}


def test_a_run_that_was_stopped_is_run_again_as_far_as_it_went(
    context: AppContext, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "STATUS_INTERVAL_S", 0.0)
    live, whole = LiveRun(), run_through(context, clip, speak_threshold=0.0, update_threshold=1.0)
    streams = run_views(context, clip, live)
    for _ in range(4):
        next(streams)
    ask(context, live, 0.0, 1.0)
    streams.close()  # type: ignore[attr-defined]
    handlers.show_stopped(context, Window(live=live))
    num_reached = len(run_of(live).outputs)
    assert json.loads(rerun(context, live).player)["thresholds"] == {"speak": 0.0, "update": 1.0}
    run = run_of(live)
    assert len(run.outputs) == num_reached < 12
    assert not run.is_finished
    assert decisions(run) == decisions(run_of(whole))[:num_reached]


def test_a_run_of_another_checkpoint_keeps_its_thresholds_and_the_page_says_so(
    context: AppContext, live: LiveRun
) -> None:
    run = replace(run_of(live), model_digest="another", name="first")
    foreign = LiveRun.finished(run, other=replace(run, name="second"))
    view = ask(context, foreign, 0.0, 1.0, ticket=3)
    assert view.status.value == (
        "⚠ this run was made with a different checkpoint. It keeps speak 0.5, update 0.5; "
        "press Run to run the video again."
    )
    shown = json.loads(view.player)
    assert (shown["thresholds"], shown["answers"]) == ({"speak": 0.5, "update": 0.5}, 3)
    assert shown["other"]["run_name"] == "second"
    assert rerun(context, foreign) == PlayerView()
    assert run_of(foreign) is run


def test_what_is_no_threshold_is_refused_in_a_sentence(context: AppContext, live: LiveRun) -> None:
    view = ask(context, live, 1.5, 0.5)
    assert view.status.value == "⚠ the speak threshold must be a number from 0 to 1; got 1.5."
    assert live.requested is None

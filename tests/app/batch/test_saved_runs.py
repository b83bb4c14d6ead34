"""A recorded run in the player and on the tab: the order of its table, its worst moment, the bundled run."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch.runs import handlers
from stepscope.app.batch.selection import keep_slice
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.player import opening
from stepscope.app.player.views import PlayerView, show_run
from stepscope.app.window.context import AppContext
from stepscope.eval.runs.folder import RunFolder
from tests.support.pages.batch_tab import make_jobs, select
from tests.support.pages.benches import views

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


def test_the_videos_of_a_run_follow_one_another_in_the_order_of_its_table(
    context: AppContext, finished: BatchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def live_of(page: Any) -> Any:
        return views(page)[2].live if page != PlayerView() else None

    monkeypatch.setattr(gr, "Warning", said.append)

    def step(live: Any, by: int, *, name: str | None = "a", **chosen: Any) -> Any:
        return live_of(handlers.step_video(context, finished, live, select(name, **chosen), by=by))

    event: Any = SimpleNamespace(row_value=["v1", 0.5])
    second = live_of(opening.open_video(context, finished, None, "a", event))
    first = step(second, -1)
    assert (first.run.clip.name, first.run.name) == ("v0", "a")
    assert step(first, 1).run.clip.name == "v1"
    keep_slice(finished, "a", frozenset({"v0", "v2"}), "ends")
    last = step(first, 1, part="ends")
    assert last.run.clip.name == "v2"
    assert step(first, 1, name="another", part="ends").run.clip.name == "v1"
    assert (step(first, -1), step(last, 1), step(None, 1)) == (None,) * 3
    assert said == [
        "this is the first video of the run&#x27;s table.",
        "this is the last video of the run&#x27;s table.",
        "the player shows no saved run; open a video of one in Batch, Videos.",
    ]


def test_a_row_opens_its_video_at_the_worst_moment(context: AppContext, finished: BatchContext) -> None:
    batches = finished
    event: Any = SimpleNamespace(row_value=["v1", 0.5])
    page = opening.open_video(context, batches, None, "a", event)
    clip_view, run_view, buttons = views(page)
    shown = json.loads(run_view.player)
    assert clip_view.clip is not None
    assert clip_view.clip.name == "v1"
    assert Path(clip_view.video).read_bytes() == clip_view.clip.path.read_bytes()
    assert clip_view.clip.sample is not None
    outputs = RunFolder(batches.runs / "a").outputs(clip_view.clip.sample)
    assert shown["open_at"] in {outputs[failure["frame"]].time_s for failure in shown["failures"]}
    assert run_view.status.value.endswith("This is its worst moment; press N for the next failure.")
    assert buttons.live.run.outputs == outputs
    assert (page.tabs.selected, page.strategy) == ("player", "refresh")
    still = replace(
        outputs[0], response=None, updates=(), legality=(), dst_state=dict.fromkeys(outputs[0].dst_state, "not_started")
    )
    bare = replace(clip_view.clip, sample=replace(buttons.live.run.clip.sample, turns=()))
    silent = replace(buttons.live.run, outputs=[still], clip=bare)
    without = show_run(silent, "v1.", encode=context.encode, open_at="worst")
    assert without.status.value == "v1. It has 1 of 18 frames. It has no failures."
    assert json.loads(without.player)["open_at"] is None
    with pytest.raises(ValueError, match="there is no run"):
        opening.read_saved(context, batches, "../a", "v1")
    with pytest.raises(ValueError, match="there is no video"):
        opening.read_saved(context, batches, "a", HOSTILE)
    with pytest.raises(ValueError, match=r"the page lacks .*; add it with --split"):
        opening.read_saved(context, replace(batches, splits={}), "a", "v1")


@pytest.fixture
def empty(finished: BatchContext, tmp_path: Path) -> BatchContext:
    """Return a page without runs of its own, whose bundled run is ``a`` of ``finished``."""
    return replace(finished, jobs=make_jobs(), runs=tmp_path / "runs", bundled=finished.runs / "a")


def test_the_tab_opens_with_the_bundled_run(empty: BatchContext, context: AppContext) -> None:
    view = handlers.enter(empty, select(None))
    assert (view.shown.name, view.runs.value) == (BUNDLED_NAME, BUNDLED_NAME)
    event: Any = SimpleNamespace(row_value=["v1"])
    shown = opening.open_video(context, empty, None, BUNDLED_NAME, event)
    assert "v1 in the run bundled" in shown.run.status.value

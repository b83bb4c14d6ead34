"""The way from a table of the batch tab into the player."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.opening import saved_runs as saved
from stepscope.app.tabs.batch.compare import handlers as comparing
from stepscope.app.tabs.batch.new_run import start as new_run
from stepscope.app.tabs.batch.selection.handlers import save_slice
from stepscope.app.tabs.batch.sweeps import handlers as sweeping
from stepscope.app.web.views import show_run
from stepscope.eval.runs.folder import RunFolder
from tests.support.pages.benches import views

HOSTILE = "<img src=x onerror=alert(1)> {{1+1}} ${1+1}"


def test_a_row_opens_its_video_at_the_worst_moment(context: AppContext, finished: BatchContext) -> None:
    batches = finished
    event: Any = SimpleNamespace(row_value=["v1", 0.5])
    page = saved.open_video(context, batches, None, "a", event)
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
    assert without.status.value == "v1. It has no failures."
    assert json.loads(without.player)["open_at"] is None
    with pytest.raises(ValueError, match="there is no run"):
        saved.read_saved(context, batches, "../a", "v1")
    with pytest.raises(ValueError, match="has no video"):
        saved.read_saved(context, batches, "a", HOSTILE)
    with pytest.raises(ValueError, match="start the page with --split"):
        saved.read_saved(context, replace(batches, splits={}), "a", "v1")


def test_what_a_program_leaves_out_is_refused_with_a_sentence(context: AppContext, finished: BatchContext) -> None:
    event: Any = SimpleNamespace(row_value=["v1", 0.5, "only B"])
    for opened in (comparing.open_both, comparing.open_turn):
        with pytest.warns(UserWarning, match="no runs are compared"):
            assert opened(context, finished, None, None, event).clip.clip == gr.skip()
    view = new_run.start(finished, "split", None, 0.5, 0.5, None, "nothing", False, None, "as in the split")
    assert "nothing" in view.problem.value
    assert "choose a run" in save_slice(finished, None, None, None, None)[1]
    (ended,) = sweeping.run_points(context, finished, None, "nothing", 5, "cpu:1")
    assert "choose a run" in ended.progress

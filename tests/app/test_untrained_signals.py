"""A model of the hub on the page: its signals are called untrained, and are calibrated on labelled videos."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.batch.sweeps.calibration import calibrate
from stepscope.app.core.videos import read_splits, read_upload
from stepscope.app.player import handlers, proposals
from stepscope.app.player.proposals import propose_steps, read_proposal
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable, LiveRun, Window
from tests.support.data.batches import copies, write_split
from tests.support.pages.batch_tab import make_batches
from tests.support.pages.benches import make_context, run_views
from tests.support.streams.hub import write_hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hub(tmp_path_factory.mktemp("hub"), "qwen2_5_vl")


@pytest.fixture(scope="module")
def context(folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    context = make_context(folder, demo_manifest, tmp_path_factory.mktemp("copies"))
    return replace(context, config=context.checkpoint.fit_config(context.config))


def test_a_run_says_that_its_signals_are_untrained(context: AppContext, tiny_folder: Path, demo_manifest: Path) -> None:
    clip = context.bundled_videos.find("truck-2")
    shown = [view for view in run_views(context, clip, LiveRun()) if isinstance(view.player, str)][-1]
    packed = json.loads(shown.player)
    assert packed["is_untrained"] is True
    assert "untrained signals" in packed["origin"]["summary"]
    rows = dict(packed["origin"]["rows"])
    assert rows["signals"].startswith("untrained")
    assert rows["frame size"] == "at most 50176 pixels, aspect kept"
    assert all(name in shown.scores for name in ("G-mean", "this run", "always silent", "always speaking"))
    trained = make_context(tiny_folder, demo_manifest, demo_manifest.parent / "copies")
    shown = [view for view in run_views(trained, clip, LiveRun()) if isinstance(view.player, str)][-1]
    assert json.loads(shown.player)["is_untrained"] is False
    assert "always silent" not in shown.scores


def test_thresholds_are_calibrated_on_the_videos_at_hand(
    context: AppContext, folder: Path, demo_manifest: Path, tmp_path: Path
) -> None:
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))
    batches = make_batches(split, checkpoint=folder, runs=tmp_path / "runs")
    batches = replace(batches, splits=read_splits([], [split]))
    *running, last = calibrate(context, batches, Cancellable(), Window())
    assert re.search(r"\d+ of 300 frames, \d+ of 25 runs", running[-1].progress)
    assert (running[-1].start.interactive, running[-1].cancel.interactive) == (False, True)
    assert (last.start.interactive, last.cancel.interactive) == (True, False)
    said = last.progress
    assert "Calibrated on 1 video of split: the best of 25 points is speak " in said
    assert "points have this value" in said  # a random model is silent at many of them
    assert "There the model never speaks" in said
    assert last.speak in (0.05, 0.275, 0.5, 0.725, 0.95)
    assert last.update in (0.05, 0.275, 0.5, 0.725, 0.95)
    (refused,) = calibrate(context, replace(batches, splits={}), Cancellable(), Window())
    assert "no video at hand has a reference" in refused.progress


def test_steps_are_proposed_by_the_model(context: AppContext) -> None:
    clip = context.bundled_videos.find("truck-2")
    assert "enter its goal" in propose_steps(context, Window(clip=clip), " ").status.value
    assert "proposed" in propose_steps(context, Window(clip=clip), "build the toy truck").status.value


def test_an_own_video_with_a_goal_alone_runs_with_the_steps_that_the_model_proposes(
    context: AppContext, demo_manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = read_upload(demo_manifest.parent / "truck-2.mp4", fps=2, max_duration_s=60)
    told = {"goal": "build the toy truck", "steps": " \n"}
    queued = handlers.queue_run(context, Window(clip=own), **told, user_turns="", speak=0.5, update=0.5)
    assert isinstance(queued.stream, int)
    monkeypatch.setattr(proposals, "_ask", lambda *_: "1. Attach the wheel\n2. Put on the roof")
    live = LiveRun()
    views = list(run_views(context, own, live, **told))
    proposed = [view.steps for view in views if isinstance(view.steps, str)]
    assert proposed == ["S1: Attach the wheel\nS2: Put on the roof"]
    assert live.run is not None
    assert live.run.is_finished
    assert [step.name for step in live.run.task.steps] == ["Attach the wheel", "Put on the roof"]
    monkeypatch.setattr(proposals, "_ask", lambda *_: "")
    *_, last = run_views(context, own, LiveRun(), **told)
    assert "proposed no steps; enter them" in last.status.value


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("- Wash it\n\n* Wash it\nStep 3: Dry it", ["S1: Wash it", "S2: Dry it"]),
        ("\x07 1. Wash\x00\x1b[31m it \ud800\r\n\x7f\x9f\n", ["S1: Wash [31m it ?"]),
        ("<think>\n1. Look\n</think>\n1. Wash it", ["S1: Wash it"]),
        ("<think>\n1. Look", []),
        (" \n", []),
    ],
)
def test_an_answer_is_read_line_by_line(text: str, steps: list[str]) -> None:
    assert read_proposal(text) == steps

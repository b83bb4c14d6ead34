"""*Explain* on the page: its cost before, the files of the command, its reasons at once, cancelled and continued."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.roots import roots
from stepscope.app.player import explaining
from stepscope.app.player.component import pack_chart
from stepscope.app.player.explaining import RUN, VIDEO, ExplainForm, explain_run, make_explain_panel, show_cost
from stepscope.app.player.opening import read_saved
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Cancellable, LiveRun, Window
from stepscope.eval.diagnosis.folder import read_diagnosis
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import digest_entry
from tests.support.data.batches import copies, load_letters, write_split
from tests.support.pages.batch_tab import make_batches, start, wait_for

OWN = "polite:\n  goal: please {goal}\n"


@pytest.fixture(scope="module")
def finished(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> BatchContext:
    folder = tmp_path_factory.mktemp("explained")
    split = write_split(folder, *copies(demo_manifest, folder, 2))
    batches = make_batches(split, checkpoint=tiny_folder, runs=folder / "runs")
    start(batches, name="a", speak=0.0)
    wait_for(batches, "a", "done")
    return batches


@pytest.fixture
def batches(finished: BatchContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchContext:
    monkeypatch.setattr("stepscope.eval.diagnosis.folder.import_encoder", load_letters)
    shutil.copytree(finished.runs, tmp_path / "runs")
    return replace(finished, runs=tmp_path / "runs")


@pytest.fixture
def live(context: AppContext, batches: BatchContext) -> LiveRun:
    return LiveRun.finished(read_saved(context, batches, "a", "v0"))


def form(scope: str = VIDEO, own: str = "") -> ExplainForm:
    return ExplainForm(scope=scope, max_cost=7, own=own)


def test_its_progress_is_that_of_the_panel(context: AppContext, batches: BatchContext) -> None:
    with gr.Blocks() as page:
        view = {name: gr.HTML(elem_id=name) for name in ("status", "progress", "player", "scores")}
        make_explain_panel(context, batches, gr.State(Window()), view)
    outputs = [{block.elem_id for block in fn.outputs} for fn in page.fns.values()]
    (names,) = (ids for ids in outputs if {"start_explain", "player"} <= ids)
    assert "explain_progress" in names
    assert "progress" not in names


def test_a_video_is_explained_in_its_folder_and_its_reasons_are_shown_at_once(
    context: AppContext, batches: BatchContext, live: LiveRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "1 video, about " in (cost := show_cost(context, batches, Window(live=live), form()).progress)
    assert " runs all." in cost
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form())
    assert [
        video["video_id"] for video in json.loads((batches.runs / "a" / "diagnosis.json").read_text())["videos"]
    ] == ["v0"]
    assert json.loads(last.player)["roots"]
    assert "placebo" in last.progress
    assert "This video: failures: " in last.progress
    assert pack_chart(lambda theme: roots(read_results(batches.runs / "a"), theme), revision="")
    window = Window(live=live)

    def leave(*found: Any) -> Any:
        window.live = None
        return read_diagnosis(*found)

    monkeypatch.setattr(explaining, "read_diagnosis", leave)
    *_, last = explain_run(context, batches, Cancellable(), window, form())
    assert "player" not in vars(last), "the window shows another run by now"


def test_own_experiments_are_kept_for_everybody_who_opens_the_run(
    context: AppContext, batches: BatchContext, live: LiveRun
) -> None:
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form())
    assert "polite" not in last.progress
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form(own=OWN.replace("please", "do")))
    assert "polite, words mixed" in last.progress, "they are added for the video alone"
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form(RUN, own=OWN))
    assert "polite, words mixed" in last.progress, "its placebo is beside it"
    assert (batches.runs / "a" / "experiments.yaml").read_text() == OWN
    assert show_cost(context, batches, Window(live=live), form()).own == OWN
    *_, refused = explain_run(context, batches, Cancellable(), Window(live=live), form(own="polite:\n  fps: 3"))
    assert "the experiments: polite.fps is no change" in refused.progress


def test_a_cancelled_diagnosis_continues_where_it_ended(
    context: AppContext, batches: BatchContext, live: LiveRun
) -> None:
    handle, file = Cancellable(), batches.runs / "a" / "diagnosis.json"
    for _ in explain_run(context, batches, handle, Window(live=live), form(RUN)):
        handle.is_cancelled = file.exists()
    assert handle.ended.is_set()
    kept = json.loads(file.read_text())["videos"]
    assert len(kept) == 1
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form(RUN))
    assert json.loads(file.read_text())["videos"][0] == kept[0]
    assert "explained so far: 2," in last.progress


def test_a_run_of_the_page_is_kept_as_one_of_its_video_alone_to_be_explained(
    context: AppContext, batches: BatchContext, live: LiveRun
) -> None:
    assert live.run is not None
    upload = replace(live.run.clip, content_digest="0" * 32)
    live.run = shown = replace(live.run, name="", kept=None, clip=upload)
    assert shown.reference is not None
    name = f"v0-{shown.digest[:8]}-{digest_entry(shown.reference)[:4]}"
    assert (
        f"At most 7 runs; the run is kept in Batch for it, as {name}."
        in show_cost(context, batches, Window(live=live), form()).progress
    )
    *_, last = explain_run(context, batches, Cancellable(), Window(live=live), form())
    assert json.loads(last.player)["roots"]
    assert live.run.name == name
    assert live.run.outputs == shown.outputs
    assert live.run.clip.path == (batches.runs / name / "video.mp4").resolve(), "an upload is kept with it"
    live.run = shown
    done = show_cost(context, batches, Window(live=live), form()).progress
    assert "1 video, explained already: nothing is left to run." in done, "it is kept already"
    live.run = replace(shown, settings={**shown.settings, "imported": ["x"]})
    assert "this run was imported" in (refused := show_cost(context, batches, Window(live=live), form()).progress)
    assert "--" not in refused

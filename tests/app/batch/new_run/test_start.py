"""The start of batch runs without a browser: what is refused, continued and reused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch.new_run.form import ResultsForm
from stepscope.app.batch.new_run.start import import_files
from stepscope.app.batch.runs import handlers
from stepscope.app.controls.run_inputs import RuleBoxes
from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.app.window.focus import name_split
from tests.support.pages.batch_tab import (
    endless,
    make_batches,
    make_jobs,
    select,
    shown_videos,
    start,
    status_of,
    wait_for,
)
from tests.support.paths import ROOT


@pytest.mark.slow
def test_the_same_settings_go_on_with_the_run_that_is_there_and_others_reuse_the_embeddings(
    batches: BatchContext,
) -> None:
    start(batches, name="")
    (name,) = batches.run_names()
    wait_for(batches, name, "done")
    before = (batches.runs / name / "v1.jsonl").stat().st_mtime_ns
    start(batches, name="")
    wait_for(batches, name, "done")
    assert batches.run_names() == [name]
    assert (batches.runs / name / "v1.jsonl").stat().st_mtime_ns == before
    kept = {path.name: path.stat().st_mtime_ns for path in (batches.runs / FEATURES_FOLDER).iterdir()}
    assert kept
    start(batches, name="b", speak=0.9)
    wait_for(batches, "b", "done")
    assert len(batches.run_names()) == 2
    assert {path.name: path.stat().st_mtime_ns for path in (batches.runs / FEATURES_FOLDER).iterdir()} == kept


def test_a_run_under_way_cannot_be_started_twice(batches: BatchContext, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = endless(monkeypatch)
    start(batches)
    assert name_split(batches, "a") == "split", "it has no folder yet"
    view = start(batches)
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    view = start(batches, name="")  # which has no folder yet that could be recognised
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    assert batches.run_names() == ["a"]
    go_on.set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"update": None}, "the update threshold must be a number from 0 to 1; got nothing"),
        ({"name": "../x"}, "a run's name may have letters"),
        ({"checkpoint": "/nowhere"}, "nowhere"),
    ],
)
def test_a_wrong_entry_is_said_and_nothing_is_started(
    batches: BatchContext, changes: dict[str, Any], words: str
) -> None:
    view = start(batches, **changes)
    assert view.problem.value.startswith("⚠ ")
    assert words in view.problem.value
    assert batches.run_names() == []
    assert not batches.runs.exists()


def test_a_page_for_others_runs_its_own_checkpoint_on_what_it_offers(batches: BatchContext) -> None:
    view = start(replace(batches, takes_paths=False), checkpoint="somebody/else")
    assert view.problem.value == "⚠ this page runs its own checkpoint and the bundled ones only."
    for devices in ("ray://10.0.0.1:10001", "cpu:1024"):
        view = start(replace(batches, takes_paths=False), devices=devices)
        assert view.problem.value == "⚠ choose devices from the list: auto, cpu:1, cpu:2, cpu:4, cuda, cuda:0."


@pytest.mark.slow
def test_a_start_under_the_name_of_another_run_is_refused_to_who_pressed_it_and_the_run_stays(
    finished: BatchContext,
) -> None:
    later = replace(finished, jobs=make_jobs())
    before = handlers.show(later, select("a"))
    view = start(later, speak=0.9)
    assert "a holds a run with another speak_threshold (0.0; now 0.9)" in view.problem.value
    assert view.problem.value.startswith("⚠ ")
    assert view.videos == gr.skip()  # what is shown stays
    assert later.jobs.find("a") is None
    after = handlers.show(later, select("a"))
    assert (status_of(after), after.videos) == (status_of(before), before.videos)
    assert status_of(after) == "3 videos."


DATA = ROOT / "tests" / "data" / "imports"
RULE = RuleBoxes(signal="informative_score", policy="running-sum", threshold="2")


def results(split: str | None, files: list[str], name: str) -> ResultsForm:
    return ResultsForm(split=split, files=files, name=name, rule=RULE)


@pytest.fixture
def page(tiny_folder: Path, tmp_path: Path) -> BatchContext:
    return make_batches(DATA / "gold.json", checkpoint=tiny_folder, runs=tmp_path / "runs")


def test_uploaded_results_become_a_scored_run_that_names_what_is_missing(page: BatchContext, tmp_path: Path) -> None:
    upload = Path(shutil.copy(DATA / "mmduet.jsonl", tmp_path / "a.jsonl"))
    with upload.open("a") as file:
        file.write("{\n")
    view = import_files(page, results("gold", [str(upload)], "mmduet"), select(None))
    assert view.problem.value == ""
    job = wait_for(page, "mmduet", "done", "failed")
    assert job.problem.startswith("a.jsonl, line 2 cannot be read as JSON")
    assert [(name, row["error"]) for name, row in job.rows.items()] == [
        ("kettle", ""),
        ("toast", "no result file was given for it"),
    ]
    shown = handlers.show(page, select("mmduet"))
    assert status_of(shown).startswith("⚠ Done: mmduet, 2 videos, 1 of them with results, ")
    assert " s; a.jsonl, line 2 cannot be read" in status_of(shown)
    assert "MMDuet files hold no updates" in status_of(shown)
    assert "The rule: speak by informative_score, running-sum, threshold 2.00, given at the import." in status_of(shown)
    assert shown_videos(shown)[1]["remark"] == "no result file was given for it"
    assert "span" in shown.corpus.lower()
    settings = json.loads((page.runs / "mmduet" / "run.json").read_text())
    signals = [(spec["name"], spec["policy"], spec["threshold"]) for spec in settings["signals"]]
    assert signals == [("informative_score", "running-sum", 2.0), ("relevance_score", "above", None)]
    assert page.run_names() == ["mmduet"]


def test_refused_files_write_nothing_and_show_no_folder(page: BatchContext, tmp_path: Path) -> None:
    def problem(*files: Path, split: str | None = "gold", name: str = "") -> str:
        view = import_files(page, results(split, [str(path) for path in files], name), select(None))
        return str(view.problem.value)

    cake = tmp_path / "cake.jsonl"
    cake.write_text((DATA / "mmduet.jsonl").read_text().replace("kettle", "cake"))
    assert problem() == "⚠ there are no result files; choose some."
    assert problem(cake, split=None) == "⚠ no split is chosen; choose that of the results."
    assert problem(cake).startswith("⚠ cake.jsonl is of the video cake, which fits 0 videos of gold.json; choose the")
    assert problem(DATA / "gold.json").startswith("⚠ gold.json, entry 0 is of no known form")
    assert "may have letters, digits" in problem(DATA / "mmduet.jsonl", name="../x")
    assert not page.runs.exists()
    (page.runs / "a").mkdir(parents=True)
    assert problem(DATA / "mmduet.jsonl", name="a") == "⚠ there is a run called a already; enter another name."

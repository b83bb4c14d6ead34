"""The start of batch runs without a browser: what is refused, continued and reused."""

from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.app.tabs.batch.runs import handlers
from tests.support.pages.batch_tab import endless, make_jobs, start, wait_for


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
    view = start(batches)
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    view = start(batches, name="")  # which has no folder yet that could be recognised
    assert view.problem.value == "⚠ a is already running or queued; wait for it or cancel it."
    assert batches.run_names() == ["a"]
    go_on.set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": None}, "no split is chosen"),
        ({"speak": 2}, "the speak threshold must be a number from 0 to 1; got 2"),
        ({"update": None}, "the update threshold must be a number from 0 to 1; got nothing"),
        ({"devices": "cpu:0"}, "cpu:0 must give a number of processes"),
        ({"devices": ""}, "device '' is not available"),
        ({"name": "../x"}, "a run's name may have letters"),
        ({"name": ".x"}, "a run's name may have letters"),
        ({"name": "x" * 81}, "a run's name may have letters"),
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
    before = handlers.show(later, "a", "as in the split")
    view = start(later, speak=0.9)
    assert "a holds a run with another speak_threshold (0.0; now 0.9)" in view.problem.value
    assert view.problem.value.startswith("⚠ ")
    assert view.videos == gr.skip()  # what is shown stays
    assert later.jobs.find("a") is None
    after = handlers.show(later, "a", "as in the split")
    assert (after.status.value, after.videos) == (before.status.value, before.videos)
    assert after.status.value == "a: 3 videos."

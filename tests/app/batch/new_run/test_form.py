"""The form of a new run: it keeps what was typed, and is filled with a run's settings when that is asked for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.batch.new_run import start as new_run
from stepscope.app.batch.new_run.form import (
    NewRunForm,
    list_checkpoints,
    make_work,
    use_settings,
)
from stepscope.app.batch.runs import handlers
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import FEATURES_FOLDER, BatchContext
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.pages.batch_tab import make_batches, select, wait_for


@pytest.fixture
def batches(demo_manifest: Path, tiny_folder: Path, tmp_path: Path) -> BatchContext:
    """Serve two splits, ``split`` and ``other``, and a run ``a`` of the second with both thresholds at 0.25."""
    first = write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))
    other = tmp_path / "other.json"
    other.write_bytes(first.read_bytes())
    work = make_worker_config(tiny_folder)
    batches = make_batches(first, other, checkpoint=tiny_folder, runs=tmp_path / "runs")
    config = replace(work.config, speak_threshold=0.25, update_threshold=0.25)
    made = replace(work, config=config, live=True, features=batches.runs / FEATURES_FOLDER)
    (batches.runs / "a").mkdir(parents=True)
    RunFolder(batches.runs / "a").write_settings(
        build_run_settings(batches.splits["other"], made, parse_devices("cpu:2"))
    )
    return batches


def change(batches: BatchContext, **changes: Any) -> None:
    settings = json.loads((batches.runs / "a" / "run.json").read_text(encoding="utf-8"))
    RunFolder(batches.runs / "a").write_settings({**settings, **changes})


def used(batches: BatchContext) -> tuple[str, Updates]:
    form = use_settings(batches, "a", "cpu:1")
    return form.status.value, form


def test_the_form_takes_the_settings_of_a_run_and_they_make_the_same_run_again(batches: BatchContext) -> None:
    said, form = used(batches)
    assert said == "The form has the settings of a; Start continues it."
    named = {"split": "other", "checkpoint": batches.work.checkpoint, "speak": 0.25, "update": 0.25}
    named |= {"strategy": "refresh", "devices": "cpu:2", "live": True}
    assert {name: getattr(form, name) for name in named} == named
    for name in (form.name, ""):
        view = new_run.start(batches, NewRunForm(**named, name=name), select(None))
        assert view.shown.name == "a", "the same settings go on with the run that is there"
        batches.jobs.cancel("a")
        wait_for(batches, "a", "cancelled")


def test_the_button_of_an_unfinished_run_continues_it_and_that_of_a_finished_one_names_none(
    batches: BatchContext,
) -> None:
    def label() -> str:
        shown = json.loads(handlers.show(batches, select("a")).rows.value)
        actions = next(run for run in shown["runs"] if run["name"] == "a")["actions"]
        return str(dict(actions)["use"])

    assert (label(), used(batches)[1].name) == ("Continue", "a")
    (batches.runs / "a" / "metrics.json").write_text('{"num_videos": 1, "scores": {}, "intervals": {}, "errors": {}}')
    assert label() == "Use these settings"
    said, form = used(batches)
    assert said == "The form has the settings of a."
    assert "name" not in vars(form)


def test_what_the_form_cannot_hold_is_said(batches: BatchContext) -> None:
    config = json.loads((batches.runs / "a" / "run.json").read_text(encoding="utf-8"))["config"]
    change(batches, config={**config, "max_seq_len": 1024})
    assert used(batches)[0].endswith("but a new run would have another max_seq_len (1024; now 4096).")
    change(batches, config={**config, "context_strategy": "sink-window"})
    said, form = used(batches)
    assert (said, form.strategy) == ("The form has the settings of a; Start continues it.", "sink-window")
    batches.splits.pop("other")
    said, form = used(batches)
    assert said.endswith("but not its split (other.json): add it under Another split.")
    assert form.split == gr.skip()
    assert form.speak == 0.25


def test_a_page_for_others_keeps_its_own_checkpoint(batches: BatchContext) -> None:
    change(batches, checkpoint="/elsewhere", model_digest="0123")
    said, form = used(replace(batches, takes_paths=False))
    assert form.checkpoint == ""
    assert "but a new run would have another model (" in said


def test_a_run_that_cannot_be_made_again_leaves_the_form(batches: BatchContext) -> None:
    change(batches, checkpoint="")
    said, form = used(batches)
    assert "a was imported: its model and stream settings are unknown" in said
    assert set(vars(form)) == {"status"}


def test_the_bundled_checkpoints_are_offered_and_bring_their_own_rule(batches: BatchContext) -> None:
    assert [value for _, value in list_checkpoints(batches)] == [batches.work.checkpoint, *BUNDLED_CHECKPOINTS]
    own = replace(batches, work=replace(batches.work, checkpoint=str(BUNDLED_CHECKPOINTS["bundled"])))
    assert [label for label, _ in list_checkpoints(own)] == ["bundled", "bundled-silent-token", "bundled-answer"]
    for_all = replace(batches, takes_paths=False, work=replace(batches.work, checkpoint="/srv/models/own"))
    assert list_checkpoints(for_all) == [("own", ""), *((name, name) for name in BUNDLED_CHECKPOINTS)]
    assert make_work(for_all, "", 0.5, 0.5, live=False).checkpoint == "/srv/models/own"
    work = make_work(for_all, "bundled-silent-token", 0.275, 0.5, live=False)
    assert (work.checkpoint, work.config.decision_policy) == ("bundled-silent-token", "streaming-eos")
    assert make_work(for_all, "bundled", 0.5, 0.5, live=False).config.decision_policy == "heads"
    with pytest.raises(ValueError, match="its own checkpoint and the bundled ones only"):
        make_work(for_all, "/elsewhere", 0.5, 0.5, live=False)

"""Recorded runs on the batch tab: which one opens, and what their button *Score* does."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch.runs import handlers
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.app.player.commands import RunInFocus
from stepscope.engine.io.files import load_json, write_json
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.writers import write_samples
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import COPIED, NO_REFERENCE
from tests.support.data.recorded import record_toy
from tests.support.pages.batch_tab import make_batches, make_jobs, select, shown_videos, status_of, wait_for


@pytest.fixture
def batches(tmp_path: Path) -> BatchContext:
    return make_batches(checkpoint=tmp_path / "none", runs=(tmp_path / "runs").resolve())


def copy_own_turns(folder: Path) -> Sample:
    """Make the turns of a recorded run a copy of the model's own, as those of a live session are; return the sample."""
    (sample,) = read_split(folder / "split.json").samples
    copied = replace(sample, has_reference=False)
    write_samples(folder / "split.json", [copied], file_format="manifest")
    return copied


def actions_of(view: Updates) -> list[list[str]]:
    """Return the events and labels of the buttons in the row of the shown run."""
    listed = json.loads(view.rows.value)
    return next(run["actions"] for run in listed["runs"] if run["name"] == listed["shown"])


def score(batches: BatchContext, name: str) -> Job:
    """Press *Score*; return the job when it is done."""
    handlers.score(batches, select(name))
    return wait_for(batches, name, "done")


def score_toy(batches: BatchContext, name: str) -> Path:
    """Record and score a run; return its folder."""
    folder = record_toy(batches.runs / name)
    score(batches, name)
    return folder


def test_the_tab_opens_the_newest_run_with_scores(batches: BatchContext) -> None:
    request: Any = SimpleNamespace(query_params={})
    nothing = handlers.enter(batches, select(None), RunInFocus(), request)
    assert (nothing.runs, json.loads(nothing.rows)["runs"], shown_videos(nothing)) == ("", [], [])
    assert handlers.tick(batches, nothing.shown, select("")) == Updates()
    score_toy(batches, "scored")
    unscored = score_toy(batches, "unscored")
    metrics = load_json((unscored / "metrics.json").read_text(encoding="utf-8"))
    write_json(unscored / "metrics.json", {**metrics, "num_videos": 0})
    record_toy(batches.runs / "live")
    batches = replace(batches, jobs=make_jobs())  # of a page that starts later
    assert batches.run_names()[0] == "live"
    assert handlers.enter(batches, select(None), RunInFocus(), request).runs == "scored"
    assert handlers.enter(batches, select("live"), RunInFocus(), request).runs == "live"


def test_a_recorded_run_is_scored_by_its_button(batches: BatchContext) -> None:
    folder = record_toy(batches.runs / "toy")
    view = handlers.show(batches, select("toy"))
    assert status_of(view) == "toy was recorded and is not scored yet. Press Score."
    assert ["score", "Score"] in actions_of(view)
    score(batches, "toy")
    assert read_metrics(folder)["scores"]["num_failures"] == 0
    shown = handlers.show(batches, select("toy"))
    assert "Done: toy, 1 video, " in status_of(shown), "without Java there are no text scores"
    assert ["score", "Score"] in actions_of(shown), "it may be scored again"


def test_a_run_without_a_reference_of_others_has_no_scores(batches: BatchContext) -> None:
    record_toy(batches.runs / "bare", has_reference=False)
    copy_own_turns(record_toy(batches.runs / "live"))
    for name, remark, words in (
        ("bare", NO_REFERENCE, "bare has no scores: its videos were recorded without a reference."),
        ("live", COPIED, "live has no scores: its turns are a copy of the model's own. Open it, correct them"),
    ):
        view = handlers.show(batches, select(name))
        assert status_of(view).startswith(words)
        assert str(batches.runs) not in status_of(view)
        assert [video["remark"] for video in shown_videos(view)] == [remark]
        assert status_of(handlers.score(batches, select(name))).startswith(f"⚠ {words}")
        assert not (batches.runs / name / "metrics.json").exists()


def test_a_corrected_copy_is_a_reference_and_the_table_says_so(batches: BatchContext) -> None:
    folder = record_toy(batches.runs / "live")
    sample = copy_own_turns(folder)
    changed = Correction(reviewer="anna", kind="text", turn=name_turns(sample.turns)[0], text="Stop.")
    batches = replace(batches, correct=partial(apply_corrections, corrections=[changed]))
    assert status_of(handlers.show(batches, select("live"))).endswith("not scored yet. Press Score.")
    job = score(batches, "live")
    remark = "scored against its corrected turns; 1 changed"
    assert shown_videos(handlers.show(batches, select("live")))[0]["remark"] == remark
    assert read_metrics(folder)["warnings"] == {"boat": remark}
    assert job.rows["boat"]["num_failures"] == 1

"""The tab *Runs*: the list, the notes of the shown run, and archived runs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import pytest

from stepscope.app.batch import run_list
from stepscope.app.batch.run_list import NotesForm, RunListForm
from stepscope.app.batch.runs import handlers
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player.commands import RunPair
from stepscope.eval.runs.notes import RunNotes, read_notes
from tests.support.data.listed_runs import set_notes, write_run
from tests.support.pages.batch_tab import make_batches, select

HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture
def batches(tmp_path: Path, demo_manifest: Path) -> BatchContext:
    """Three runs: ``old`` in the group lr with a note of HTML, ``mid`` archived, and ``new`` with another seed."""
    runs = tmp_path / "runs"
    set_notes(write_run(runs / "old"), group="lr", tags=("a",), note=HTML)
    set_notes(write_run(runs / "mid", created="2026-11-08T10:00:00+00:00"), archived=True)
    write_run(runs / "new", created="2026-11-15T10:00:00+00:00", config={"seed": 3}, f1=0.75)
    return make_batches(demo_manifest, checkpoint=tmp_path, runs=runs)


def show(batches: BatchContext, query: str = "", *, archived: bool = False) -> Updates:
    form = RunListForm(query=query, metrics=["F1"], archived=archived, metric="F1")
    return run_list.show_list(batches, form)


def names(view: Updates) -> list[str]:
    return [row[0] for row in view.table.value["data"]]


def load(batches: BatchContext, name: str | None, seen: Any = None, *typed: Any) -> Updates:
    return run_list.show_notes(batches, name, seen, write(*(typed or ("", [], "", False))))


def write(note: str, tags: list[str], group: str, archived: bool) -> NotesForm:
    return NotesForm(note=note, tags=tags, group=group, archived=archived)


def test_the_list_has_notes_settings_that_differ_and_scores(batches: BatchContext) -> None:
    view = show(batches)
    assert view.table.value["headers"] == ["Run", "Date", "Origin", "Group", "Tags", "Seed", "Response F1", "Note"]
    assert [row[-3:] for row in view.table.value["data"]] == [["3", 0.75, ""], ["0", 0.5, HTML]]  # plain text
    assert view.said.value.startswith("2 of 3 runs; 1 archived.")
    assert names(show(batches, archived=True)) == ["new", "mid", "old"]
    assert names(show(batches, "seed:3")) == ["new"]
    assert names(show(batches, "group:lr tag:a")) == ["old"]
    assert names(show(batches, "nothing")) == []
    assert show(batches, "seed:3").chart == "", "one point is no history"


def test_the_rows_have_notes_and_scores_and_a_second_tick_compares(batches: BatchContext) -> None:
    view = handlers.pick(batches, select("old", scores=["F1"]), RunPair(a="new", b="old"))
    listed = json.loads(view.rows.value)
    assert (view.runs, view.other, view.views.selected, listed["shown"]) == ("new", "old", "Compare", "new")
    rows = {row["name"]: row for row in listed["runs"]}
    assert sorted(rows) == ["new", "old"], "an archived run is no row"
    assert (rows["old"]["note"], rows["old"]["tags"], rows["old"]["scores"]) == (HTML, ["a"], ["0.500"])
    assert handlers.pick(batches, select("new", other="old"), RunPair(a="old")).other == ""


def test_an_archived_run_leaves_the_lists_unless_it_is_shown(batches: BatchContext) -> None:
    assert batches.listed_runs() == ["new", "old"] or batches.listed_runs() == ["old", "new"]
    assert "mid" in batches.listed_runs("mid")
    assert "mid" in batches.run_names(), "its links open"
    assert "mid" not in batches.comparable_runs("old")
    event = cast(gr.SelectData, SimpleNamespace(row_value=["mid", ""]))
    assert run_list.open_run(batches, event) == "mid"


def test_notes_are_saved_and_do_not_move_their_run(batches: BatchContext) -> None:
    order = batches.run_names()
    view = load(batches, order[-1])
    saved = run_list.save_notes(batches, order[-1], view.seen, write(HTML, ["x", "y, z"], "g", True))
    assert read_notes(batches.runs / order[-1]) == RunNotes(note=HTML, tags=("x", "y", "z"), group="g", archived=True)
    assert saved.tags.value == ["x", "y", "z"]
    assert batches.run_names() == order


def test_notes_of_two_people_are_merged_and_a_note_is_not_overwritten_unseen(batches: BatchContext) -> None:
    seen = load(batches, "old").seen
    set_notes(batches.runs / "old", note="theirs", tags=("a", "theirs"))
    refused = run_list.save_notes(batches, "old", seen, write("mine", ["mine"], "lr", False))
    assert "changed meanwhile to “theirs”" in refused.said.value
    assert read_notes(batches.runs / "old").note == "theirs"
    run_list.save_notes(batches, "old", refused.seen, write("mine", ["a", "theirs", "mine"], "lr", False))
    assert read_notes(batches.runs / "old") == RunNotes(note="mine", tags=("a", "theirs", "mine"), group="lr")


def test_notes_that_were_not_saved_are_saved_before_another_run_is_shown(batches: BatchContext) -> None:
    seen = load(batches, "old").seen
    assert load(batches, "old", seen, "typed", ["a"], "lr", False).note == gr.skip(), "a late reply undoes no typing"
    assert load(batches, "new", seen, "typed", ["a"], "lr", False).note.value == ""
    assert read_notes(batches.runs / "old").note == "typed"

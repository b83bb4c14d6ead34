"""Runs of a folder in a list, and the notes of people on them."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.reports.run_list import filter_runs, find_run_folders, list_runs, tabulate_runs
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.notes import MAX_NOTE_CHARS, RunNotes, change_notes, read_notes
from tests.support.data.listed_runs import set_notes, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs of November: ``old`` (group lr), ``mid`` (archived) and ``new`` with another seed."""
    set_notes(write_run(tmp_path / "old"), group="lr", tags=("baseline",), note="the first one")
    set_notes(write_run(tmp_path / "mid", created="2026-11-08T10:00:00+00:00"), archived=True)
    write_run(tmp_path / "new", created="2026-11-15T10:00:00+00:00", config={"seed": 31}, f1=None)
    (tmp_path / "no run").mkdir()
    return tmp_path


def listed(runs: Path, query: str = "") -> list[str]:
    return [run.name for run in filter_runs(list_runs(find_run_folders(runs)), query)]


def test_runs_are_listed_by_date_with_the_settings_that_differ(runs: Path) -> None:
    assert listed(runs) == ["new", "mid", "old"]
    new, _, old = tabulate_runs(list_runs(find_run_folders(runs)), ["F1"])
    assert (old["origin"], old["group"], old["tags"], old["note"]) == ("tiny", "lr", "baseline", "the first one")
    assert (new["seed"], old["seed"]) == ("31", "0")
    assert "split" not in new, "it is the same in all runs"
    assert "/models" not in str(list_runs(find_run_folders(runs))), "others need not see the folders of the server"
    assert old["F1"] == 0.5
    assert new["F1"] != new["F1"], "undefined"


def test_the_list_tells_of_how_many_videos_the_scores_are(tmp_path: Path) -> None:
    write_run(tmp_path / "whole")
    metrics = write_run(tmp_path / "part") / "metrics.json"
    metrics.write_text(json.dumps(json.loads(metrics.read_text()) | {"errors": {"v3": "lost"}}))
    rows = {row["run"]: row for row in tabulate_runs(list_runs(find_run_folders(tmp_path)), [])}
    assert [rows[name]["videos scored"] for name in ("whole", "part")] == ["2 of 2", "2 of 3"]


def test_the_list_tells_runs_that_only_speak_whose_failures_are_of_responses_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "updates")
    write_run(tmp_path / "imported", imported=["a.json"])
    write_run(tmp_path / "recorded", has_states=False)
    rows = {row["run"]: row for row in tabulate_runs(list_runs(find_run_folders(tmp_path)), ["num_failures"])}
    assert {name: row["states"] for name, row in rows.items()} == {"updates": "yes", "imported": "no", "recorded": "no"}
    assert all("has_states" not in row for row in rows.values())
    assert listed(tmp_path, "states:no -imported") == ["recorded"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tag:Baseline", ["old"]),
        ("tag:base", []),
        ("group:lr", ["old"]),
        ("-group:lr", ["new", "mid"]),
        ("seed:31.0", ["new"]),
        ("seed:3", []),
        ("split:val", ["new", "mid", "old"]),
        ('"first one"', ["old"]),
        ("FIRST tiny", ["old"]),
        ("nothing", []),
    ],
)
def test_a_search_reads_notes_and_settings(runs: Path, query: str, found: list[str]) -> None:
    assert listed(runs, query) == found


def test_notes_are_kept_beside_the_run_and_are_not_measured(runs: Path) -> None:
    before = {path.name: path.read_bytes() for path in (runs / "old").iterdir() if path.name != "notes.json"}
    notes = set_notes(runs / "old", tags=("b, a", " b "), note=" <b>bold</b> ")
    assert notes == read_notes(runs / "old") == RunNotes(note="<b>bold</b>", tags=("b", "a"), group="lr")
    assert {path.name: path.read_bytes() for path in (runs / "old").iterdir() if path.name != "notes.json"} == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"note": "x" * 2**20}, f"at most {MAX_NOTE_CHARS:,} characters; got 1,048,576"),
        ({"tags": ("x" * 300,)}, "a tag has at most 60 characters; got 300"),
        ({"group": "x" * 61}, "a group has at most 60"),
        ({"tags": tuple(map(str, range(21)))}, "at most 20 tags"),
    ],
)
def test_notes_that_are_too_long_are_refused(runs: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        set_notes(runs / "old", **changes)
    assert read_notes(runs / "old").note == "the first one"


@pytest.mark.parametrize("content", ["{", '{"note": 3}', '{"tag": []}', "x" * 2**19])
def test_damaged_notes_are_kept_and_named(runs: Path, content: str) -> None:
    (runs / "old" / "notes.json").write_text(content)
    run = next(run for run in list_runs(find_run_folders(runs)) if run.name == "old")
    assert run.problem.startswith("notes.json")
    assert run.scores["F1"] == 0.5, "the rest of the run is listed"
    with pytest.raises(ValueError, match=r"notes\.json"):
        set_notes(runs / "old", note="new")
    assert (runs / "old" / "notes.json").read_text() == content


def test_a_character_that_utf_8_lacks_is_replaced_in_notes_and_settings(runs: Path) -> None:
    set_notes(runs / "old", note="a\ud800", tags=("b\udfff",), group="\ud801")
    write_run(runs / "other", model="c\ud800")
    found = {run.name: run for run in list_runs(find_run_folders(runs))}
    assert found["old"].notes == RunNotes(note="a?", tags=("b?",), group="?")
    assert found["other"].settings["model"] == "c?"


@pytest.mark.parametrize("created", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-01-01T00:00:00"])
def test_settings_that_no_list_can_show_cost_their_run_alone(runs: Path, created: str) -> None:
    write_run(runs / "bad", split="loop", created=created, config={"x": float("inf")}, note="none of ours")
    (runs / "bad" / "loop").symlink_to("loop")
    found = list_runs(find_run_folders(runs))
    assert [run.name for run in found if run.problem] == ["bad"]
    assert next(row for row in tabulate_runs(found, ["F1"]) if row["run"] == "old")["note"] == "the first one"


def test_the_name_of_a_setting_is_no_formula_in_a_table(runs: Path, tmp_path: Path) -> None:
    for value in ("x", "y"):
        changes: dict[str, Any] = {"=1+1": value}
        write_run(runs / value, **changes)
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv")]) == 0
    assert ",'=1+1," in (tmp_path / "runs.csv").read_text().splitlines()[0]


def test_two_writers_lose_no_change(runs: Path) -> None:
    run = runs / "new"

    def add(number: int) -> None:
        change_notes(run, lambda notes: replace(notes, tags=(*notes.tags, str(number))))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(16)))
    assert set(read_notes(run).tags) == set(map(str, range(16)))
    assert sorted(path.name for path in run.iterdir()) == ["metrics.json", "notes.json", "run.json"]


def test_notes_of_a_folder_that_cannot_be_written_are_one_sentence(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("stepscope.eval.runs.notes.write_json", refuse)
    with pytest.raises(ValueError, match=r"^the notes of old cannot be written: Permission denied$"):
        set_notes(runs / "old", note="x")
    with pytest.raises(ValueError, match="no run folder"):
        set_notes(runs / "no run", note="x")


def test_a_resumed_run_keeps_the_time_at_which_it_was_created(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder.open(tmp_path, {"split": "s.json"}) as run:
            pass
        settings = run.settings() or {}
        (tmp_path / "run.json").write_text(json.dumps({**settings, "created": "2026-01-02T03:04:05+00:00"}))
    assert (RunFolder(tmp_path).settings() or {})["created"] == "2026-01-02T03:04:05+00:00"
    assert settings["created"] == "2026-01-02T03:04:05+00:00"


def test_the_command_prints_the_runs_and_writes_them(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", str(runs), "--csv", str(tmp_path / "runs.csv")]) == 0
    printed = capsys.readouterr()
    assert "| old |" in printed.out
    assert "| mid |" not in printed.out
    assert printed.err == "2 runs; 1 archived, shown with --archived\n"
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert [(row["run"], row["F1"], row["seed"]) for row in csv.DictReader(file)] == [
            ("new", "", "31"),
            ("old", "0.5", "0"),
        ]
    assert main(["note", str(runs / "mid"), "--tag", "x,y", "--group", "lr", "--unarchive"]) == 0
    assert main(["note", str(runs / "mid"), "--untag", "x", "--note", "why"]) == 0
    assert read_notes(runs / "mid") == RunNotes(note="why", tags=("y",), group="lr")
    assert main(["runs", str(runs), "--search", "group:lr"]) == 0
    assert capsys.readouterr().err.endswith("2 runs\n")
    (runs / "old" / "notes.json").write_text("{")
    assert main(["runs", str(runs)]) == 1
    assert "damaged: old: notes.json" in capsys.readouterr().err
    assert main(["note", str(runs / "old"), "--archive", "--unarchive"]) == 2

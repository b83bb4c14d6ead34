"""Runs of a folder in a list, and the notes of people on them."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.reports.run_list import filter_runs, find_run_folders, list_runs, tabulate_runs
from stepscope.eval.runs.notes import RunNotes, change_notes, read_notes
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


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tag:Baseline", ["old"]),
        ("-group:lr", ["new", "mid"]),
        ("seed:31.0", ["new"]),
        ("FIRST tiny", ["old"]),
    ],
)
def test_a_search_reads_notes_and_settings(runs: Path, query: str, found: list[str]) -> None:
    assert listed(runs, query) == found


def test_notes_are_kept_beside_the_run_and_are_not_measured(runs: Path) -> None:
    before = {path.name: path.read_bytes() for path in (runs / "old").iterdir() if path.name != "notes.json"}
    notes = set_notes(runs / "old", tags=("b, a", " b "), note=" <b>bold</b> ")
    assert notes == read_notes(runs / "old") == RunNotes(note="<b>bold</b>", tags=("b", "a"), group="lr")
    assert {path.name: path.read_bytes() for path in (runs / "old").iterdir() if path.name != "notes.json"} == before


def test_damaged_notes_are_kept_and_named(runs: Path) -> None:
    (runs / "old" / "notes.json").write_text('{"note": 3}')
    run = next(run for run in list_runs(find_run_folders(runs)) if run.name == "old")
    assert run.problem.startswith("notes.json")
    assert run.scores["F1"] == 0.5, "the rest of the run is listed"
    with pytest.raises(ValueError, match=r"notes\.json"):
        set_notes(runs / "old", note="new")
    assert (runs / "old" / "notes.json").read_text() == '{"note": 3}'


def test_two_writers_lose_no_change(runs: Path) -> None:
    run = runs / "new"

    def add(number: int) -> None:
        change_notes(run, lambda notes: replace(notes, tags=(*notes.tags, str(number))))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(16)))
    assert set(read_notes(run).tags) == set(map(str, range(16)))
    assert sorted(path.name for path in run.iterdir()) == ["metrics.json", "notes.json", "run.json"]


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

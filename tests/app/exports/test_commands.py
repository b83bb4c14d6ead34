"""The command line of exports and reviews."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import EXPORTS, REVIEWS
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.store import open_store
from stepscope.engine.cli.program import run_program
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.folder import RunFolder
from tests.support.paths import ASSETS
from tests.support.reviews.desks import write_reviewed
from tests.support.reviews.exported import reword
from tests.support.reviews.reviewed import UNRUN

main = partial(run_program, EXPORTS, prog="stepscope export")

EVENT = Event(video_id="boat", kind="update", role="update", time_s=1.0, text="S1->start")


reviews = partial(run_program, REVIEWS, prog="stepscope reviews")
BUNDLED = ASSETS / "demo" / "test.json"


def test_the_traces_of_a_run_have_a_row_per_frame_and_its_provenance(run: RunFolder, tmp_path: Path) -> None:
    settings = {"split": str(tmp_path / "split.json"), "model_digest": "feed", "text_encoder": "old"}
    run.write_settings(settings)
    (run.path / "metrics.json").write_text('{"text_encoder": "letters", "text_encoder_version": "1"}')
    assert main(["traces", str(run.path), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "run-traces.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["video_id"] for row in rows] == ["boat"] * 12, "the other video failed"
    assert {row["run"] for row in rows} == {"run"}
    source = json.loads((tmp_path / "out" / "run-provenance.json").read_text(encoding="utf-8"))
    origin = (source["model_digest"], source["text_encoder"], source["text_encoder_version"])
    assert origin == ("feed", "letters", "1")


def test_the_command_line_goes_once_round(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["write", "run", "--format", "eaf", "--out", "out"]) == 0
    assert not (tmp_path / "runs").exists()
    reword(tmp_path / "out" / "boat.eaf", "Set down the hull.", "Lay down the hull.")
    assert main(["import", "out/boat.eaf", "--split", "split.json", "--reviewer", "ann"]) == 0
    assert capsys.readouterr().out == "2 videos: out\n1 correction: out/boat.eaf\n"
    assert main(["split", "split.json", "--out", "corrected.json"]) == 0
    corrected, unrun = read_samples(tmp_path / "corrected.json")
    assert corrected.turns[0].text == "Lay down the hull."
    assert unrun == UNRUN
    reword(tmp_path / "out" / "boat.eaf", "Lay down the hull.", "Drop the hull.")
    main(["import", "out/boat.eaf", "--split", "split.json", "--reviewer", "bob"])
    assert main(["split", "split.json", "--out", "corrected.json"]) == 1
    assert capsys.readouterr().err == (
        "conflict: boat, assistant at 0 s 'Set down the hull.', text: ann: 'Lay down the hull.', "
        "bob: 'Drop the hull.'\n"
    )
    assert main(["split", "split.json", "--out", "corrected.json", "--prefer", "bob"]) == 0
    assert capsys.readouterr().err == ""
    assert read_samples(tmp_path / "corrected.json")[0].turns[0].text == "Drop the hull."
    assert main(["split", "split.json", "--out", "none", "--prefer", "Bob"]) == 2
    assert "--prefer Bob: this reviewer has no corrections" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_videos_are_assigned_in_the_terminal_and_the_agreement_is_printed(
    demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reviewed = write_reviewed(demo_manifest, tmp_path)
    run, where = str(reviewed.runs / "a"), ["--reviews", str(reviewed.store)]
    command = ["assign", run, "--to", "ann, ben", "--overlap", "50", "--by", "sue", *where]
    assert reviews(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 videos assigned, 2 of them (67%) to several reviewers"
    assert [line.split()[:3] for line in lines[2:]] == [["ann", "3", "0"], ["ben", "2", "0"]]
    assert reviews(["agreement", *where]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["all", "4", "0.750", "0.556"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["write", "nothing", "--format", "csv", "--out", "out"], "nothing is not the run folder of a split"),
        (["split", str(BUNDLED), "--out", "o", "--reviews", "no.sqlite"], "the review store no.sqlite does not exist"),
        (
            ["split", str(BUNDLED), "--out", "out.json", "--format", "dst"],
            "the dst format cannot hold the video's file; give --omit video_path, or --format manifest\n",
        ),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_a_flooded_review_is_counted_then_set_aside_then_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(tmp_path / "reviews.sqlite")
    with open_store(where) as store:
        for name in ("ann", "mallory", "mallory"):
            store.append(Action(kind="done", reviewer=name, video_id="boat", run=""))

    def prune(*arguments: str) -> tuple[str, int]:
        assert reviews(["prune", "--reviews", where, "--reviewer", "mallory", *arguments]) == 0
        with open_store(where) as store:
            return capsys.readouterr().out.splitlines()[-1], len(store.read())

    assert prune() == ("2 actions would be set aside; add --apply to do it", 3)
    assert prune("--apply") == ("2 actions set aside", 1)
    assert prune("--since", "2999-01-01", "--restore", "--apply") == ("0 actions applied again", 1)
    assert prune("--restore", "--apply") == ("2 actions applied again", 3)
    for wrong in ([], ["--since", "now"], ["--reviewer", "x", "--reviews", str(tmp_path / "none.sqlite")]):
        assert reviews(["prune", *wrong]) == 2
    assert not (tmp_path / "none.sqlite").exists()

"""The command line of exports and reviews."""

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import EXPORTS, REVIEWS
from stepscope.app.core.slices import slices_path
from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.store import open_store
from stepscope.engine.cli.program import run_program
from stepscope.eval.annotations.corrections import Correction
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder
from tests.support.paths import ASSETS
from tests.support.reviews.desks import write_reviewed
from tests.support.reviews.exported import correct, reword
from tests.support.reviews.reviewed import NAMES, SAMPLE, UNRUN

main = partial(run_program, EXPORTS, prog="stepscope export")

EVENT = Event(video_id="boat", kind="update", role="update", time_s=1.0, text="S1->start")


reviews = partial(run_program, REVIEWS, prog="stepscope reviews")
BUNDLED = ASSETS / "demo" / "test.json"


def test_the_traces_of_a_run_have_a_row_per_frame_and_its_provenance(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert main(["traces", str(run.path), "--out", str(tmp_path / "out"), "--video", "ship"]) == 2
    assert "the split has no video ship" in capsys.readouterr().err


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
    for command in (["split", "split.json"], ["write", "run", "--format", "json"]):
        assert main([*command, "--out", "none", "--prefer", "bob", "--prefer", "Bob"]) == 2
        said = "error: --prefer Bob: this reviewer has no corrections; reviewers with corrections: ann, bob\n"
        assert capsys.readouterr().err == said
    assert not (tmp_path / "none").exists()


def test_a_corrected_manifest_names_videos_from_its_own_folder_or_as_the_split_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: tmp_path / name for name in ("data/a/v.mp4", "data/b/v.mp4", "data/split/near.mp4", "data/far.mp4")}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"video")
    written = [
        "near.mp4",
        "../far.mp4",
        *(str(files[name]) for name in ("data/a/v.mp4", "data/b/v.mp4", "data/far.mp4")),
    ]
    source, out = tmp_path / "data" / "split" / "split.json", tmp_path / "out" / "corrected.json"
    write_samples(source, [replace(SAMPLE, video_id=f"v{number}") for number in range(5)], file_format="manifest")
    content = json.loads(source.read_text())
    for video, path in zip(content["videos"], written, strict=True):
        video["video_path"] = path
    source.write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)

    def export(*options: str) -> list[str]:
        assert main(["split", str(source), "--out", str(out), *options]) == 0
        return [video["video_path"] for video in json.loads(out.read_text())["videos"]]

    assert export() == [
        "../data/split/near.mp4",
        *(f"../data/{name}" for name in ("far.mp4", "a/v.mp4", "b/v.mp4", "far.mp4")),
    ]
    found = [(sample.video_path or Path()).resolve() for sample in read_samples(out)]
    assert found == [(sample.video_path or Path()).resolve() for sample in read_samples(source)]
    assert export("--relative-to", "split") == ["near.mp4", "../far.mp4", "a/v.mp4", "b/v.mp4", "far.mp4"]
    assert [sample.video_path for sample in read_samples(out, videos=tmp_path / "data")] == [
        files["data/split/near.mp4"],
        files["data/far.mp4"],
        files["data/a/v.mp4"],
        files["data/b/v.mp4"],
        files["data/far.mp4"],
    ]


@pytest.mark.parametrize("form", ["dst", "proassist"])
def test_a_published_form_has_its_provenance_beside_it(tmp_path: Path, form: str) -> None:
    bare = replace(SAMPLE, turns=tuple(replace(turn, cause=None) for turn in SAMPLE.turns if turn.role != "update"))
    write_samples(tmp_path / "split.json", [bare], file_format="manifest")
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="text", turn=NAMES[0], text="Lay down the hull."))
    out = tmp_path / "corrected.json"
    command = ["split", str(tmp_path / "split.json"), "--out", str(out), "--format", form, "--omit", "cause"]
    assert main([*command, "--reviews", str(tmp_path / "reviews.sqlite")]) == 0
    provenance = json.loads((tmp_path / "corrected.json.provenance.json").read_text(encoding="utf-8"))
    assert (provenance["reviewers"], provenance["num_corrected_turns"]) == (["ann"], 1)
    assert [turn.text for turn in read_samples(out)[0].turns][:1] == ["Lay down the hull."]


def test_the_command_line_says_how_far_reviewers_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "reviews.sqlite")
    with open_store(store) as opened:
        for reviewer, verdict in (("ann", "correct"), ("bob", "unclear")):
            opened.append(
                Action(kind="verdict", reviewer=reviewer, video_id="boat", event=EVENT, verdict=verdict)  # type: ignore[arg-type]
            )
    assert reviews(["agreement", "--reviews", store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[1].split(), lines[2].split(), lines[-1]] == [
        ["all", "1", "0.000", "0.000", "0.000"],
        ["correct", "1", "0.000", "0.000", "0.000"],
        "boat 1 s, update 'S1->start': ann: correct, bob: unclear",
    ]


def test_videos_are_assigned_in_the_terminal_and_the_state_is_printed(
    demo_manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reviewed = write_reviewed(demo_manifest, tmp_path)
    run, where = str(reviewed.runs / "a"), ["--reviews", str(reviewed.store)]
    command = ["assign", run, "--to", "ann, ben", "--overlap", "50", "--by", "sue", *where]
    assert reviews(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 videos assigned, 2 of them (67%) to several reviewers"
    assert [line.split()[:3] for line in lines[2:]] == [["ann", "3", "0"], ["ben", "2", "0"]]
    path = slices_path(reviewed.runs, reviewed.split)
    path.parent.mkdir()
    path.write_text(json.dumps({"slices": {"first": ["v0"]}}), encoding="utf-8")
    assert reviews(["assign", run, "--slice", "first", *where]) == 0  # only prints
    assert capsys.readouterr().out.startswith("1 video assigned,")
    assert reviews(["assign", str(reviewed.split), "--to", "ann", "--by", "sue", *where]) == 0
    alone = "ann                       3      0        4      0       -       -"  # the verdicts on v0
    assert alone in capsys.readouterr().out
    assert reviews([*command, "--slice", "second"]) == 2
    assert capsys.readouterr().err == "error: there is no slice 'second'; slices: first\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["write", "nothing", "--format", "csv", "--out", "out"], "nothing is not the run folder of a split"),
        (["split", str(BUNDLED), "--out", "o", "--reviews", "no.sqlite"], "the review store no.sqlite does not exist"),
        (
            ["import", "a.eaf", "--split", str(BUNDLED), "--reviewer", "ann", "--reviews", "nope/r.sqlite"],
            "the folder nope of the review store does not exist",
        ),
        (
            ["split", str(BUNDLED), "--out", "out.json", "--format", "dst"],
            "the dst format cannot hold the video's file; give --omit video_path, or --format manifest\n",
        ),
        (["split", "nothing.json", "--out", "out.json"], "there is no file "),
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

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import etree

from app.exports.__main__ import main
from app.exports.folder import EXPORT_FORMATS, correct_samples, gather_videos, import_eaf, write_export
from app.exports.tabulate import build_tables
from app.reviews.actions import Action, Event
from app.reviews.review import fold_actions
from app.reviews.store import ReviewStore, open_store
from eval.annotations.corrections import Correction
from eval.data.loading import read_samples
from eval.data.samples import Sample, Turn
from eval.data.writers import write_samples
from eval.runs.folder import RunFolder, VideoRecord, write_settings
from tests.support.exported import read_json_tables
from tests.support.paths import ASSETS
from tests.support.reviewed import NAMES, SAMPLE, output

UNRUN = replace(SAMPLE, video_id="../car =1", turns=SAMPLE.turns[:1])
SAMPLES = (SAMPLE, UNRUN)
BUNDLED = ASSETS / "demo" / "test.json"
EVENT = Event(video_id="boat", kind="update", role="update", time_s=1.0, text="S1->start")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Return a run of the split ``split.json``, in which one of two videos failed."""
    write_samples(tmp_path / "split.json", SAMPLES, file_format="manifest")
    folder = RunFolder(tmp_path / "run")
    outputs = [replace(output(index), response=None) for index in range(12)]
    folder.save_video(VideoRecord(video_id="boat", source="s", num_frames=12), outputs)
    folder.save_video(VideoRecord(video_id=UNRUN.video_id, source="s", error="no such file"), [])
    write_settings(folder.path, {"split": str(tmp_path / "split.json")})
    return folder


def correct(store: ReviewStore, correction: Correction) -> None:
    store.append(Action(kind="correction", reviewer=correction.reviewer, video_id="boat", correction=correction))


def reword(path: Path, old: str, new: str) -> None:
    document = etree.parse(str(path))
    for tier in document.iter("TIER"):
        for value in tier.iter("ANNOTATION_VALUE"):
            if tier.get("TIER_ID").startswith("corrected: ") and value.text == old:
                value.text = new
    document.write(str(path))


def current(store: ReviewStore) -> Sample:
    return correct_samples([SAMPLE], review=fold_actions(store.read()))[0].sample


def test_every_form_of_a_run_lies_in_its_folder_whatever_the_videos_are_called(run: RunFolder, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[parquet]'")
    videos = gather_videos(SAMPLES, review=fold_actions([]), run=run)
    for form in EXPORT_FORMATS:
        write_export(tmp_path / form, videos, file_format=form)
    found = {form: sorted(path.name for path in (tmp_path / form).iterdir()) for form in EXPORT_FORMATS}
    tables = ["corrections.csv", "predictions.csv", "references.csv", "states.csv", "verdicts.csv"]
    assert found == {
        "csv": tables,
        "json": ["review.json"],
        "webvtt": ["..%2Fcar %3D1.vtt", "boat.vtt"],
        "eaf": ["..%2Fcar %3D1.eaf", "boat.eaf"],
        "dataset": ["README.md", "predictions", "references", "states"],
    }
    assert read_json_tables(tmp_path / "json" / "review.json") == build_tables(videos)
    assert {row.video_id for row in build_tables(videos).predictions} == {"boat"}


def test_the_traces_of_a_run_have_a_row_per_frame_and_its_provenance(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"split": str(tmp_path / "split.json"), "model_digest": "feed", "text_encoder": "old"}
    write_settings(run.path, settings)
    (run.path / "metrics.json").write_text('{"text_encoder": "letters", "text_encoder_version": "1"}')
    assert main(["traces", str(run.path), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "run-traces.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["video_id"] for row in rows] == ["boat"] * 12, "the other video failed"
    assert {(row["run"], row["model_digest"]) for row in rows} == {("run", "feed")}
    source = json.loads((tmp_path / "out" / "run-provenance.json").read_text(encoding="utf-8"))
    assert (source["text_encoder"], source["text_encoder_version"]) == ("letters", "1")
    assert main(["traces", str(run.path), "--out", str(tmp_path / "out"), "--video", "ship"]) == 2
    assert "the split has no video ship" in capsys.readouterr().err


def test_what_was_edited_in_elan_becomes_corrections_and_what_others_did_since_stands(tmp_path: Path) -> None:
    path = tmp_path / "boat.eaf"
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="text", turn=NAMES[0], text="Lay down the hull."))
        write_export(tmp_path, gather_videos(SAMPLES, review=fold_actions(store.read())), file_format="eaf")
        correct(store, Correction(reviewer="ann", kind="time", turn=NAMES[4], time_s=5.0))
        reword(path, "S1->start", "S2->start")
        actions = import_eaf(path, samples=SAMPLES, store=store, reviewer=" bob ")
        assert [action.correction for action in actions] == [
            Correction(reviewer="bob", kind="update", turn=NAMES[1], text="S2->start")
        ]
        after = current(store)
        assert [(turn.time_s, turn.text[:18]) for turn in after.turns if turn.role != "user"] == [
            (0.0, "Lay down the hull."),
            (1.0, "S2->start"),
            (3.0, "S1->complete"),
            (3.0, "S2->start"),
        ]
        assert [turn.time_s for turn in after.turns if turn.role == "user"] == [5.0]
        num_actions = len(store.read())
        assert import_eaf(path, samples=SAMPLES, store=store, reviewer="bob") == ()
        assert (current(store), len(store.read())) == (after, num_actions)
        correct(store, Correction(reviewer="bob", kind="update", turn=NAMES[1], text="S1->complete"))
        assert len(import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")) == 1  # it had been superseded
        assert current(store) == after


def test_importing_grows_with_the_turns_and_not_with_their_square(tmp_path: Path) -> None:
    def num_calls(number: int) -> int:
        """Count the function calls of importing a document in which every turn was moved, for the second time."""
        turns = tuple(Turn(time_s=index / 2, role="assistant", text=f"{index}") for index in range(number))
        sample = replace(SAMPLE, num_frames=number + 2, turns=turns)
        path, calls = tmp_path / "boat.eaf", 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        with open_store(tmp_path / f"{number}.sqlite") as store:
            write_export(tmp_path, gather_videos([sample], review=fold_actions([])), file_format="eaf")
            document = ElementTree.parse(path)
            for slot in document.iterfind("TIME_ORDER/TIME_SLOT"):
                slot.set("TIME_VALUE", str(int(slot.get("TIME_VALUE", "0")) + 250))
            document.write(path)
            assert len(import_eaf(path, samples=[sample], store=store, reviewer="bob")) == number
            sys.setprofile(count)
            try:
                assert import_eaf(path, samples=[sample], store=store, reviewer="bob") == ()
            finally:
                sys.setprofile(None)
        return calls

    assert num_calls(200) < 5 * num_calls(50)


def test_a_missing_tier_is_refused_and_nothing_is_kept_unless_deletions_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, where = tmp_path / "boat.eaf", tmp_path / "reviews.sqlite"
    write_samples(tmp_path / "split.json", [SAMPLE], file_format="manifest")
    with open_store(where) as store:
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions([])), file_format="eaf")
        path.write_text(path.read_text().replace("corrected: assistant", "said by the assistant"))
        arguments = ["import", str(path), "--split", str(tmp_path / "split.json"), "--reviewer", "bob"]
        arguments += ["--reviews", str(where)]
        assert main(arguments) == 2
        assert "has no tier 'corrected: assistant'" in capsys.readouterr().err
        assert store.read() == ()
        assert main([*arguments, "--allow-deletions"]) == 0
        assert [action.correction.kind for action in store.read() if action.correction] == ["delete"]


def test_a_document_of_one_reviewers_view_is_read_against_that_view(tmp_path: Path) -> None:
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="delete", turn=NAMES[0]))
        correct(store, Correction(reviewer="bob", kind="time", turn=NAMES[1], time_s=1.5))
        blind = fold_actions(store.read(), only="bob")
        write_export(tmp_path, gather_videos([SAMPLE], review=blind), file_format="eaf")
        assert import_eaf(tmp_path / "boat.eaf", samples=[SAMPLE], store=store, reviewer="bob") == ()


def test_a_document_of_another_store_or_split_or_of_elan_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "boat.eaf"
    with open_store(tmp_path / "reviews.sqlite") as store, open_store(tmp_path / "other.sqlite") as other:
        correct(other, Correction(reviewer="ann", kind="delete", turn=NAMES[0]))
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions(other.read())), file_format="eaf")
        with pytest.raises(ValueError, match="was exported from another store of reviews"):
            import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")
        with pytest.raises(ValueError, match="is of the video boat, which is not in the split"):
            import_eaf(path, samples=[UNRUN], store=other, reviewer="bob")
        path.write_text("<ANNOTATION_DOCUMENT/>")
        with pytest.raises(ValueError, match="lacks the properties of an export; export it again"):
            import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")
        assert store.read() == ()


def test_the_command_line_goes_once_round(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["write", "run", "--format", "eaf", "--out", "out"]) == 0
    assert not (tmp_path / "runs").exists()
    reword(tmp_path / "out" / "boat.eaf", "Set down the hull.", "Lay down the hull.")
    assert main(["import", "out/boat.eaf", "--split", "split.json", "--reviewer", "ann"]) == 0
    assert capsys.readouterr().out == "2 videos: out\n1 corrections: out/boat.eaf\n"
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
    command = ["split", str(tmp_path / "split.json"), "--out", str(out), "--form", form, "--without", "cause"]
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
    assert main(["agreement", "--reviews", store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[1].split(), lines[2].split(), lines[-1]] == [
        ["all", "1", "0.000", "0.000", "0.000"],
        ["correct", "1", "0.000", "0.000", "0.000"],
        "boat 1 s, update 'S1->start': ann: correct, bob: unclear",
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["write", "nothing", "--format", "csv", "--out", "out"], "nothing is not the run folder of a split"),
        (["agreement", "--reviews", "nothing.sqlite"], "the review store nothing.sqlite does not exist"),
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

"""Exports and imports of the reviews tab."""

import hashlib
import json
import re
import zipfile
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.cli.stepscope import EXPORTS
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.review_store.actions import Action, Event
from stepscope.app.reviews import handlers
from stepscope.app.reviews.query import REVIEW_EXPORTS, SPLIT_EXPORTS, UNSPLIT
from stepscope.app.window.context import ReviewContext
from stepscope.engine.cli.program import run_program
from stepscope.eval.annotations.corrections import Verdict
from stepscope.eval.data.loading import read_samples
from tests.support.reviews.desks import HOSTILE, ReviewedSplit, make_query, words

export = partial(run_program, EXPORTS, prog="stepscope export")


def files(folder: Path) -> dict[str, bytes]:
    """Read all files; an ELAN document is dated by the second, which may pass between two exports."""
    return {
        path.relative_to(folder).as_posix(): re.sub(rb' DATE="[^"]*"', b"", path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def write(*query: Any) -> tuple[Any, Any]:
    """Write an export as far as the file that is handed out; return what is said of it, and the file or None."""
    for view in handlers.export(*query):
        file = view.file and BytesIO(Path(view.file).read_bytes())
    return view.said, file


@pytest.mark.parametrize("content", ["everything, as eaf", "everything, as json", "corrected split, as dst"])
def test_an_export_is_what_the_command_line_writes(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit, tmp_path: Path, content: str
) -> None:
    form = REVIEW_EXPORTS.get(content) or SPLIT_EXPORTS[content]
    without = ["video_path", "cause"] if form == "dst" else []
    said, file = write(batches, reviews, make_query(run="a"), content, ["ann"], without)
    assert said.value.startswith(f"⚠ test-{form}.zip has 3 videos. Corrections that no longer fit")
    zipfile.ZipFile(file).extractall(tmp_path / "zip")
    common = ["--format", form, "--prefer", "ann", "--reviews", str(reviewed.store), "--out"]
    out = tmp_path / "cli"
    if content in REVIEW_EXPORTS:
        assert export(["write", str(reviewed.runs / "a"), *common, str(out)]) == 1  # a correction does not fit
    else:
        left = [part for name in without for part in ("--omit", name)]
        assert export(["split", str(reviewed.split), *left, *common, str(out / "test.json")]) == 1
    written = files(tmp_path / "zip" / f"test-{form}")
    assert written == files(out)
    assert written


def test_a_corrected_manifest_of_the_page_names_no_folder_of_the_server_and_says_whose_corrections_it_has(
    batches: BatchContext, reviews: ReviewContext, reviewed: ReviewedSplit, tmp_path: Path
) -> None:
    _, file = write(batches, reviews, make_query(), "corrected split, as manifest", ["ann"], [])
    zipfile.ZipFile(file).extractall(tmp_path / "zip")
    path = tmp_path / "zip" / "test-manifest" / "test.json"
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    found = read_samples(path, videos=tmp_path)
    assert [sample.turns[1:] for sample in found] == [sample.turns[1:] for sample in read_samples(reviewed.split)]
    assert all(sample.video_path and sample.video_path.is_file() for sample in found)
    provenance = json.loads(path.read_text(encoding="utf-8"))["provenance"]
    assert provenance.pop("last_correction_at").startswith("20")
    assert provenance == {
        "written_by": "StepScope 0.1.0",
        "source": "test.json",
        "source_sha256": hashlib.sha256(reviewed.split.read_bytes()).hexdigest(),
        "reviewers": ["ann"],
        "num_corrections": {"does not fit": 1, "effective": 1, "overruled": 1},
        "num_corrected_turns": 1,
        "prefer": ["ann"],
        "only": None,
        "without": [],
    }


def test_documents_from_elan_become_corrections_and_others_are_refused(
    batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    _, file = write(batches, reviews, make_query(), "everything, as eaf", [], [])
    zipfile.ZipFile(file).extractall(tmp_path)
    document, noise = tmp_path / "test-eaf" / "v2.eaf", tmp_path / "noise.eaf"
    text = document.read_text(encoding="utf-8").replace("Let's build the toy truck.", "Let us begin.")
    document.write_text(text, encoding="utf-8")
    noise.write_text("noise", encoding="utf-8")
    paths = [str(document), str(noise)]
    before = reviews.store.read()
    assert "write your name in Reviewer" in handlers.import_documents(reviews, make_query(), paths).value
    assert reviews.store.read() == before
    said = handlers.import_documents(reviews, make_query(typed="cleo"), paths).value
    kept = [action.correction for action in reviews.store.read()[len(before) :]]
    assert [(found.reviewer, found.text) for found in kept if found] == [("cleo", "Let us begin.")]
    first, second = said.splitlines()  # the refusal first
    renamed = tmp_path / "renamed.eaf"
    renamed.write_text(text.replace("corrected: assistant", "assistant"), encoding="utf-8")
    refused = handlers.import_documents(reviews, make_query(typed="cleo"), [str(renamed)]).value
    assert refused.startswith("⚠ renamed.eaf has no tier 'corrected: assistant'; the import would delete ")
    assert len(reviews.store.read()) == len(before) + 1
    allowed = handlers.import_documents(reviews, make_query(typed="dan"), [str(renamed)], allow_deletions=True).value
    assert allowed == "renamed.eaf: 1 correction was imported for dan (deletions: 1)."
    assert len(reviews.store.read()) > len(before) + 1
    assert first.startswith("⚠ noise.eaf cannot be read as an ELAN document")
    assert second == "v2.eaf: 1 correction was imported for cleo."
    assert str(tmp_path) not in said


def test_what_is_said_of_uploads_is_shown_and_exported(
    batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    upload = Event(video_id="mine.mp4 0123abcd", kind="generated", role="assistant", time_s=1.0, text="Hi.")
    told: list[tuple[str, Verdict]] = [("ann", "correct"), ("bob", "missed")]
    for who, verdict in told:
        reviews.store.append(
            Action(kind="verdict", reviewer=who, video_id=upload.video_id, event=upload, verdict=verdict)
        )
    query = make_query(split=UNSPLIT)
    view = handlers.show(batches, reviews, query)
    assert view.status.value == "Videos in no split: 1 judged event in 1 video, 1 to settle."
    assert view.videos == [[upload.video_id, 1, "ann 1, bob 1", "correct 1, missed 1", 0, 0]]
    said, file = write(batches, reviews, query, "everything, as json", [], [])
    assert said.value == "uploads-json.zip has 1 video. No predictions are exported: no run with outputs is chosen."
    zipfile.ZipFile(file).extractall(tmp_path / "zip")
    tables = json.loads((tmp_path / "zip" / "uploads-json" / "review.json").read_text(encoding="utf-8"))
    assert [(row["reviewer"], row["verdict"]) for row in tables["verdicts"]] == told


def test_blind_shows_and_exports_nothing_of_the_others(batches: BatchContext, reviews: ReviewContext) -> None:
    query = make_query(typed=" ann ", is_blind=True)
    view = handlers.show(batches, reviews, query)
    assert "img" not in words(view).replace(json.dumps(HOSTILE)[1:-1], "", 1)  # the video is called so
    assert "Blind mode: only the reviews of ann are shown." in view.status.value
    assert (view.agreement, [row[2] for row in view.to_settle]) == (handlers.HIDDEN_AGREEMENT, ["no longer fits"])
    said, file = write(batches, reviews, query, "everything, as json", [HOSTILE], [])
    tables = json.loads(zipfile.ZipFile(file).read("test-json/review.json"))
    assert "It contains only the reviews of ann." in said.value
    assert {row["reviewer"] for row in (*tables["verdicts"], *tables["corrections"])} == {"ann"}
    nobody = replace(query, typed="")
    view = handlers.show(batches, reviews, nobody)
    assert "nothing is shown: write your name in Reviewer" in view.status.value
    assert "ann" not in words(view)
    assert "write your name" in write(batches, reviews, nobody, "everything, as json", [], [])[0].value


def test_everything_without_a_run_holds_no_empty_table_of_predictions_and_says_so(
    batches: BatchContext, reviews: ReviewContext, tmp_path: Path
) -> None:
    said, file = write(batches, reviews, make_query(), "everything, as csv", [], [])
    assert "No predictions are exported: no run with outputs is chosen." in said.value
    zipfile.ZipFile(file).extractall(tmp_path / "zip")
    names = set(files(tmp_path / "zip" / "test-csv"))
    assert names == {"corrections.csv", "references.csv", "states.csv", "verdicts.csv"}
    said, file = write(batches, reviews, make_query(run="a"), "everything, as csv", [], [])
    assert "No predictions" not in said.value
    zipfile.ZipFile(file).extractall(tmp_path / "with")
    assert set(files(tmp_path / "with" / "test-csv")) == {*names, "predictions.csv"}

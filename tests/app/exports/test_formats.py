"""Every export format: its files, its place in the documents."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import EXPORT_FORMATS, write_export
from stepscope.app.exports.tabulate import build_tables
from stepscope.app.reviews.review import fold_actions
from stepscope.eval.runs.folder import RunFolder
from tests.support.paths import ROOT
from tests.support.reviews.exported import read_json_tables
from tests.support.reviews.reviewed import SAMPLES


def test_an_export_into_a_run_folder_is_refused_since_a_video_may_have_the_name_of_its_files(run: RunFolder) -> None:
    videos = gather_videos([replace(SAMPLES[0], video_id="run")], review=fold_actions([]))
    files = {path: path.read_bytes() for path in run.path.iterdir()}
    for form in EXPORT_FORMATS:
        with pytest.raises(ValueError, match="holds a run, whose files an export may replace"):
            write_export(run.path, videos, file_format=form)
    assert {path: path.read_bytes() for path in run.path.iterdir()} == files


def test_every_form_of_a_run_lies_in_its_folder_whatever_the_videos_are_called(run: RunFolder, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[parquet]'")
    videos = gather_videos(SAMPLES, review=fold_actions([]), run=run)
    for form in EXPORT_FORMATS:
        write_export(tmp_path / form, videos, file_format=form)
    found = {form: sorted(path.name for path in (tmp_path / form).iterdir()) for form in EXPORT_FORMATS}
    tables = ["corrections.csv", "predictions.csv", "references.csv", "states.csv", "verdicts.csv"]
    expected = {
        "csv": tables,
        "json": ["review.json"],
        "webvtt": ["..%2Fcar %3D1.vtt", "boat.vtt"],
        "eaf": ["..%2Fcar %3D1.eaf", "boat.eaf"],
        "dataset": ["README.md", "predictions", "references", "states"],
    }
    assert {form: found[form] for form in expected} == expected
    for form, described in EXPORT_FORMATS.items():  # those that are added later, too
        assert found[form], form
        if described.ending:
            assert found[form] == [f"..%2Fcar %3D1{described.ending}", f"boat{described.ending}"]
    assert read_json_tables(tmp_path / "json" / "review.json") == build_tables(videos)
    assert {row.video_id for row in build_tables(videos).predictions} == {"boat"}


def test_the_documents_list_every_export_format() -> None:
    text = (ROOT / "docs" / "data-formats.md").read_text(encoding="utf-8")
    listed = text.partition("## Exports")[2].partition("## ")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", listed, re.MULTILINE))
    assert rows == {form: described.label for form, described in EXPORT_FORMATS.items()}

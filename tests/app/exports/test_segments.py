"""The corrected steps of videos as segments: what is written reads back as the same segments."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import write_export
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.review import fold_actions
from stepscope.app.review_store.store import open_store
from stepscope.engine.records import Step
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.data.writers import write_samples
from tests.support.data.records import make_sample

Found = list[tuple[float, float, str]]
UPDATES = ((1.0, "S1->start"), (2.5, "S2->start"), (4.0, "S2->complete"), (6.0, "S1->complete"), (7.0, "S3->start"))
SAMPLE = make_sample(
    video_id="a, b",
    fps=2.0,
    num_frames=20,
    steps=tuple(Step(id=f"S{number}", name=name) for number, name in enumerate(("cut", "place <it>", "glue"), 1)),
    turns=tuple(Turn(time_s=time_s, role="update", text=text) for time_s, text in UPDATES),
)
MOVED = Correction(reviewer="ann", kind="boundary", turn=name_turns(SAMPLE.turns)[3], time_s=6.25)
ACTION = Action(kind="correction", reviewer="ann", video_id="a, b", correction=MOVED)
SEGMENTS: Found = [(1.0, 6.25, "cut"), (2.5, 4.0, "place <it>"), (7.0, 10.0, "glue")]
"""After the correction; the last step is open at the end of the video."""


def read_table(path: Path) -> Found:
    with (path / "segments.csv").open(encoding="utf-8", newline="") as file:
        return [(float(row["start_s"]), float(row["end_s"]), row["label"]) for row in csv.DictReader(file)]


def read_database(path: Path) -> Found:
    (video,) = json.loads((path / "database.json").read_text())["database"].values()
    return [(*one["segment"], one["label"]) for one in video["annotations"]]


def read_via(path: Path) -> Found:
    content = json.loads((path / "via.json").read_text())
    assert content["project"]["vid_list"] == list(content["view"]) == ["1"]
    return [(*one["z"], one["av"]["1"]) for one in content["metadata"].values()]


def read_elan(path: Path) -> Found:
    (document,) = path.glob("*.eaf")
    root = ElementTree.parse(document).getroot()
    times = {one.get("TIME_SLOT_ID"): int(one.get("TIME_VALUE", "")) / 1000 for one in root.iter("TIME_SLOT")}
    return [
        (times[one.get("TIME_SLOT_REF1")], times[one.get("TIME_SLOT_REF2")], one.findtext("ANNOTATION_VALUE") or "")
        for tier in root.iter("TIER")
        if tier.get("TIER_ID", "").startswith("steps")
        for one in tier.iter("ALIGNABLE_ANNOTATION")
    ]


READERS = {"segments": read_table, "database": read_database, "via": read_via, "eaf": read_elan}


def export(folder: Path, sample: Sample, form: str) -> Found:
    write_export(folder, gather_videos([sample], review=fold_actions([ACTION])), file_format=form)
    return sorted(READERS[form](folder))


@pytest.mark.parametrize("form", READERS)
def test_the_corrected_segments_read_back_as_they_are(form: str, tmp_path: Path) -> None:
    assert export(tmp_path, SAMPLE, form) == SEGMENTS


def test_the_times_of_an_excerpt_are_those_of_its_file(tmp_path: Path) -> None:
    found = export(tmp_path, replace(SAMPLE, start_s=100.0), "database")
    assert found == [(start + 100, end + 100, label) for start, end, label in SEGMENTS]


def test_the_command_writes_the_segments_of_a_split_without_a_run(tmp_path: Path) -> None:
    write_samples(tmp_path / "split.json", [SAMPLE], file_format="manifest")
    with open_store(tmp_path / "reviews.sqlite") as store:
        store.append_all([ACTION])
    options = ["--format", "segments", "--reviews", str(tmp_path / "reviews.sqlite"), "--out", str(tmp_path / "out")]
    assert main(["export", "write", str(tmp_path / "split.json"), *options]) == 0
    assert sorted(read_table(tmp_path / "out")) == SEGMENTS

"""Real excerpts of data sets, files of a user's own, and damaged files."""

import re
from collections import Counter
from pathlib import Path

import pytest

from stepscope.eval.datasets.mappings import read_bundled, read_mappings
from stepscope.eval.datasets.reading import read_annotations
from stepscope.eval.datasets.recipes import build_sample
from tests.support.paths import SHARED

DATASETS = SHARED / "datasets"
real = pytest.mark.skipif(not DATASETS.is_dir(), reason="needs the excerpts of data sets")


@real
@pytest.mark.parametrize(
    ("name", "num_videos", "num_steps", "counts"),
    [
        ("captaincook4d", 6, 75, {"given twice": 150, "never done": 4, "duplicate": 1, "not in the recipe": 1}),
        ("goalstep", 6, 56, {"irrelevant": 7, "extended": 13, "of another level": 115}),
        ("breakfast", 5, 15, {"background": 10}),
        ("keystep-form", 4, 59, {}),
    ],
)
def test_a_real_excerpt_is_read_unchanged(name: str, num_videos: int, num_steps: int, counts: dict[str, int]) -> None:
    """CaptainCook4D has 3 recordings of 12 steps, 2 of 16 and 1 of 7: 75, each in three files."""
    found = read_annotations([DATASETS / name])
    built = [build_sample(video, fps=2, recipe=found.recipes.get(video.recipe, ())) for video in found.videos]
    assert [video.problem for video in found.videos] == [""] * num_videos
    assert sum(len(sample.steps) for sample, _ in built) == num_steps
    assert sum((counted for _, counted in built), Counter[str]()) == counts
    assert set(found.not_read) <= {"SOURCE.txt", "LICENSE.txt"}


@real
def test_published_lists_divide_a_data_set_and_its_lengths_are_read() -> None:
    (video,) = read_annotations([DATASETS / "captaincook4d"], subset="val").videos
    assert (video.video_id, video.duration_s) == ("1_20", 681.15)
    with pytest.raises(ValueError, match="no video is in the subset dev; there are train, val"):
        read_annotations([DATASETS / "captaincook4d"], subset="dev")


def test_every_bundled_mapping_names_its_data_set() -> None:
    assert len(read_bundled()) >= 26
    assert all(one.title for one in read_bundled().values())


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_mapping_of_your_own_describes_a_file(tmp_path: Path) -> None:
    mapping = write(
        tmp_path, "my.yaml", "mine: {form: json, videos: clips, video: id, segments: parts, start: t.0, end: t.1}"
    )
    file = write(tmp_path, "x.json", '{"clips": [{"id": "a", "parts": [{"t": [1, 2], "label": "pour"}]}]}')
    (video,) = read_annotations([file], mapping=mapping).videos
    assert [(one.start_s, one.end_s, one.label) for one in video.segments] == [(1, 2, "pour")]


def test_in_a_folder_files_that_a_chosen_data_set_does_not_have_are_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path, "own.yaml", "mine: {start: t0, end: t1, label: what}")
    (folder := tmp_path / "data").mkdir()
    write(folder, "a.csv", "t0,t1,what\n1,2,pour\n")
    write(folder, "README.txt", "The times are seconds, and\nthe names are ours.\n")
    found = read_annotations([folder], mapping=tmp_path / "own.yaml")
    assert ([video.video_id for video in found.videos], found.not_read) == (["a"], ("README.txt",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mine: {unit: hours}", "my.yaml, mine: unit must be s, ms, clock, ticks, frames@RATE or timecode@RATE"),
        ("mine: {colour: red}", "my.yaml, mine: colour"),
        ("mine: {line: '('}", "my.yaml, mine: line must be a regular expression"),
        ("mine: {label: what}", "my.yaml, mine: start or end must name the field of a time"),
        ("- a", "my.yaml must map names of data sets to their fields"),
    ],
)
def test_a_wrong_mapping_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        read_mappings(write(tmp_path, "my.yaml", text))


HEADER = "video,start,end,label\n"
COIN = '{"database": {"a": {"class": "Tea", "annotation": [{"segment": [%s], "id": 1, "label": "pour"}]}}}'


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", HEADER + "a,nan,2,pour\n", "row 1: a time is a number, or like 1:30; got 'nan'"),
        ("a.csv", HEADER + "a,-3,2,pour\n", "row 1: a time must be a number from 0 to 1e+09; got -3"),
        ("a.csv", HEADER + "a,5,2,pour\n", "row 1: 'pour' ends at 2 s, before its start at 5 s; swap the times"),
        ("a.csv", HEADER + "a,1,1e300,pour\n", "row 1: a time must be a number from 0 to 1e+09"),
        ("a.csv", HEADER + "a,1,2,\n", "row 1: a segment has no label"),
        ("a.csv", HEADER + "a,1,,pour\n", "row 1: a segment has no end"),
        ("a.json", COIN % "NaN, 2", "segment number 0: a time is a number; got nan"),
        ("a.json", COIN % "3", "segment number 0: a segment has no segment.1"),
        ("a.json", COIN % "5, 2", "before its start"),
        ("a.txt", "1-5 pour\n9-3 stir\n", "line 2: 'stir' ends at 0.2 s"),
    ],
)
def test_a_damaged_segment_is_the_problem_of_its_video(name: str, content: str, reason: str, tmp_path: Path) -> None:
    (video,) = read_annotations([write(tmp_path, name, content)]).videos
    assert reason in video.problem


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.csv",
            "<!DOCTYPE html><html>404</html>",
            "a.csv cannot be read: it is a web page; download the file itself",
        ),
        ("a.csv", HEADER.encode() + b"a,1,2,caf\xe9\n", "a.csv cannot be read: it is not UTF-8 text; save it as UTF-8"),
        ("a.csv", "", "it is empty"),
        ("a.csv", "a,b\n1,2,3\n", "the table cannot be read: "),
        ("a.csv", "a,b\n1,2\n", "no data set has the columns a, b; name those of yours with --columns"),
        ("a.json", '{"a": 1', "a.json cannot be read: "),
        ("a.json", '{"a": 1}', "it has the keys of no data set"),
        ("a.json", "[" * 100_000, "it is nested too deep"),
        ("a.json", '{"train": ["v"], "test": ["v"]}', "video v is in train and in test; keep it in one"),
        ("a.json", '[{"data": {"video": "a"}, "annotations": []}]', "give --unit frames@RATE"),
        ("a.xml", "<!DOCTYPE a><annotations/>", "it has a document type declaration"),
        ("a.xml", "<svg/>", "a document with the root svg is none of ELAN, Anvil or CVAT"),
        ("a.txt", "pour\npour\nstir\n", "labels of frames need their rate; give --unit frames@RATE"),
        ("a.txt", "0:00 boil\npour\n", "no data set has the columns 0:00 boil"),
        ("a.tsv", "Time\tBehavior\tBehavior type\n1\tpour\tSTOP\n", "'pour' at 1 has no matching start"),
        ("a.vtt", "WEBVTT\n\n1 --> 2\nx\n", "a cue has a time such as"),
        ("a.bundle", "x.txt\n", "the files have no annotated video; name the file with the segments, too"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(
    name: str, content: str | bytes, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as refused:
        read_annotations([write(tmp_path, name, content)])
    assert "\n" not in str(refused.value)


def test_a_missing_column_and_a_missing_file_are_named(tmp_path: Path) -> None:
    file = write(tmp_path, "a.csv", HEADER)
    with pytest.raises(ValueError, match="has the columns video, start, end, label; name those of yours"):
        read_annotations([file], columns=["start=from"])
    with pytest.raises(ValueError, match="there is no file "):
        read_annotations([tmp_path / "b.csv"])
    with pytest.raises(ValueError, match="there is no data set kettle; choose from coin"):
        read_annotations([file], dataset="kettle")

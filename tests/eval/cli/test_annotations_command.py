"""The command that makes a split from annotations."""

import json
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.video.cards import write_cards
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.loading import read_split

TABLE = "clip,from,to,what\na,0,10,pour\na,1,4,stir\nb,0,1,pour\nb,3,4,sing\n"
COLUMNS = ["--columns", "video=clip", "start=from", "end=to", "label=what"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_cards(tmp_path / "videos" / "a.mp4", lambda _: "pour", fps=2, num_frames=20)
    (path := tmp_path / "own.csv").write_text(TABLE)
    return path


def test_a_table_becomes_a_split_with_the_videos_that_exist_and_stand_ins_for_the_rest(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, drawn = tmp_path / "split.json", tmp_path / "drawn"
    options = ["--out", str(out), *COLUMNS, "--videos", str(tmp_path / "videos")]
    assert main(["annotations", str(table), *options]) == 0
    assert capsys.readouterr().out == f"{out}: table: 2 videos, 4 steps, 1 without a file, 1 clamped\n"
    a, b = read_split(out).samples
    assert (a.num_frames, b.num_frames) == (20, 9)
    assert a.video_path is not None
    assert a.video_path.name == "a.mp4"
    assert b.video_path is None
    assert [turn.text for turn in a.turns] == ["S1->start", "S2->start", "S2->complete", "S1->complete"]

    assert main(["annotations", str(table), *options, "--draw-missing", str(drawn)]) == 0
    b = read_split(out).samples[1]
    assert b.video_path == drawn / "b.mp4"
    images = [frame.image for frame in read_frames(drawn / "b.mp4", fps=2)]
    assert len(images) == b.num_frames
    colours = [tuple(image[2, 2].tolist()) for image in images]
    assert colours[0] == colours[1] != colours[3] != colours[6]
    provenance = json.loads(out.read_text())["provenance"]["annotations"]
    assert provenance["counts_by_video"] == {"a": {"clamped": 1}}
    assert provenance["drawn"] == ["b"]
    assert list(provenance["files"]) == ["own.csv"]


def test_a_video_that_cannot_be_used_is_named_and_the_rest_is_written(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "split.json"
    options = ["--out", str(out), *COLUMNS, "--videos", str(tmp_path / "videos")]
    table.write_text(TABLE.replace("a,0,10", "a,0,300"))
    assert main(["annotations", str(table), *options]) == 1
    assert (
        "failed: a: the last segment ends at 300 s, the video at 10 s: is the unit frames?" in capsys.readouterr().err
    )
    assert [sample.video_id for sample in read_split(out).samples] == ["b"]
    table.write_text("clip,from,to,what\na,0,300,pour\n")
    assert main(["annotations", str(table), *options]) == 2
    assert "error: a: the last segment ends at 300 s" in capsys.readouterr().err
    assert [sample.video_id for sample in read_split(out).samples] == ["b"]

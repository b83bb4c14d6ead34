import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from stepscope.app.publish.story import Story, parse_story
from stepscope.engine.video.reader import probe
from stepscope.engine.video.writer import write_h264
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.folder import RunFolder
from tests.app.publish.conftest import HOSTILE, HOSTILE_IDS
from tests.conftest import STEPS, moving_square
from tests.support.data.batches import write_scores, write_split
from tests.support.data.saved_runs import save_run
from tests.support.pages.published import make_source, publish
from tests.support.paths import ASSETS


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(bundled_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("web") / "site"
    assert publish(bundled_run, out) == {}
    return out


def test_the_table_has_the_failures_scores_video_and_exports_of_each_video(site: Path, bundled_run: RunFolder) -> None:
    index = read(site / "data" / "run.json")
    assert [row["id"] for row in index["videos"]] == [one.video_id for one in read_samples(bundled_run.split_path())]
    truck = index["videos"][0]
    packed = read(site / truck["data"])
    counts = [sum(failure["kind"] == kind for failure in packed["failures"]) for kind in index["kinds"]]
    assert truck["failures"] == counts
    assert sum(counts) > 0
    f1 = next(number for number, column in enumerate(index["columns"]) if column["name"] == "F1")
    assert packed["tiles"][1] == {**packed["tiles"][1], "label": index["columns"][f1]["label"]}
    assert packed["tiles"][1]["figure"] == f"{truck['scores'][f1]:.2f}"
    assert truck["t"] in [failure["frame"] / packed["fps"] for failure in packed["failures"]]
    assert truck["event"] in [event["key"] for event in packed["events"]]
    assert (index["num_scored"], index["tiles"][0]["label"][:8]) == (16, "Failures")
    assert index["tiles"][0]["figure"] == str(sum(sum(row["failures"]) for row in index["videos"]))
    for row in read(site / "data" / "run.json")["videos"]:
        assert probe(site / row["video"]).is_browser_playable
    row = read(site / "data" / "run.json")["videos"][0]
    with (site / row["exports"] / "traces.csv").open(encoding="utf-8", newline="") as file:
        traces = list(csv.DictReader(file))
    assert {trace["video_id"] for trace in traces} == {row["id"]}
    assert len(traces) == len((site / row["exports"] / "outputs.jsonl").read_text(encoding="utf-8").splitlines())
    assert read(site / row["exports"] / "provenance.json")["split"] == "test.json"


def test_the_folder_is_a_static_space_with_relative_addresses_and_no_folder_of_this_machine(
    site: Path, bundled_run: RunFolder
) -> None:
    private = (str(bundled_run.split_path().parent), str(bundled_run.path.parent), "/home/someone")
    for path in (path for path in site.rglob("*") if path.suffix in (".json", ".jsonl", ".csv", ".html", ".md")):
        assert [name for name in private if name in path.read_text(encoding="utf-8")] == [], path
    index = (site / "index.html").read_text(encoding="utf-8")
    addresses = re.findall(r'(?:href|src)="([^"]*)"', index)
    assert len(addresses) > 50
    assert [one for one in addresses if re.match(r"/|\w+://", one)] == []
    assert [one for one in addresses if one not in ("?", "data:,") and not (site / one).is_file()] == []
    _, front_matter, _ = (site / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    found = yaml.safe_load(front_matter)
    assert (found["sdk"], found["app_file"], found["title"]) == ("static", "index.html", "StepScope: bundled")


def test_a_title_cannot_leave_its_line_and_the_diagnosis_is_that_of_the_videos(
    bundled_run: RunFolder, tmp_path: Path
) -> None:
    title = "mine\nsdk: docker\n---\n# x \ud800"
    run = RunFolder(shutil.copytree(bundled_run.path, tmp_path / "run"))
    for name in ("diagnosis.json", "diagnosis.csv"):
        shutil.copy(ASSETS / "demo" / "run" / name, run.path)
    publish(run, tmp_path / "site", videos=["boat-hard-permuted"], files="none", title=title)
    [row] = read(tmp_path / "site" / "data" / "run.json")["videos"]
    assert row["num_roots"] is None, "the outputs are not those of the diagnosis"
    bundled = RunFolder(ASSETS / "demo" / "run")
    publish(bundled, tmp_path / "roots", videos=["robot-permuted", "boat"], files="none")
    assert [row["num_roots"] for row in read(tmp_path / "roots" / "data" / "run.json")["videos"]] == [0, 1]
    packed = read(tmp_path / "roots" / "data" / "0002-robot-permuted.json")
    assert [reason["is_consequence"] for reason in packed["failures"]] == [False, False, *[True] * 7]
    assert packed["roots"][0]["words"].startswith("Once it is corrected, 7 later failures vanish. ")
    found = yaml.safe_load((tmp_path / "site" / "README.md").read_text(encoding="utf-8").split("\n---\n")[0])
    assert (found["sdk"], found["title"]) == ("static", "mine sdk: docker --- # x ?")
    diagnosis = read(tmp_path / "site" / "data" / "diagnosis.json")
    found = {video["video_id"] for video in diagnosis["videos"]}
    rows = list(csv.DictReader((tmp_path / "site" / "data" / "diagnosis.csv").read_text().splitlines()))
    assert found == {"boat-hard-permuted"} == {row["video_id"] for row in rows}, (
        "the diagnosis of a published run is that of its videos"
    )


def test_hostile_ids_have_their_own_safe_files(hostile_run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert publish(hostile_run, out) == {}
    rows = read(out / "data" / "run.json")["videos"]
    assert [row["id"] for row in rows] == list(HOSTILE_IDS)
    for name in ("data", "exports", "video"):
        assert all((out / row[name]).resolve().is_relative_to(out) for row in rows)
        assert len({row[name].lower() for row in rows}) == (1 if name == "video" else len(rows))  # one file, once
    assert [read(out / row["data"])["video_id"] for row in rows] == list(HOSTILE_IDS)


def test_a_video_that_browsers_do_not_play_is_converted_and_a_link_leads_to_one_that_they_do(
    uploads: Any, tmp_path: Path
) -> None:
    write_h264(tmp_path / "plays.mp4", moving_square(20, shade=90), fps=10)
    video = {"fps": 2.0, "num_frames": 4, "goal": "", "steps": STEPS, "turns": []}
    split = write_split(
        tmp_path,
        {"video_id": "foreign", "video_path": str(uploads.foreign), **video},
        {"video_id": "plays", "video_path": "plays.mp4", **video},
        {"video_id": "clip", "video_path": "plays.mp4", "start_s": 0.5, **video, "num_frames": 2},
    )
    run = save_run(tmp_path / "run", split)
    publish(run, tmp_path / "site", files="link")
    foreign, plays, clip = (tmp_path / "site" / row["video"] for row in read(tmp_path / "site/data/run.json")["videos"])
    assert probe(foreign).is_browser_playable
    assert plays.is_symlink()
    assert plays.resolve() == (tmp_path / "plays.mp4").resolve()
    assert not clip.is_symlink()
    assert probe(clip).duration_s == pytest.approx(1.0, abs=0.11)


def test_missing_videos_are_named_and_not_needed_without_pictures(tmp_path: Path) -> None:
    video = {"fps": 2.0, "num_frames": 4, "goal": "", "steps": STEPS, "turns": []}
    split = write_split(
        tmp_path, {"video_id": "gone", "video_path": "gone.mp4", **video}, {"video_id": "bare", **video}
    )
    run = save_run(tmp_path / "run", split)
    with pytest.raises(ValueError, match=r"^2 videos have no file: gone, bare; .* --videos none to publish without"):
        publish(run, tmp_path / "site")
    assert not (tmp_path / "site").exists()
    assert publish(run, tmp_path / "site", files="none") == {}
    assert [row["video"] for row in read(tmp_path / "site/data/run.json")["videos"]] == [None, None]
    assert not (tmp_path / "site" / "videos").exists()


def test_uploads_have_the_names_of_their_files_and_nowhere_their_digests(tmp_path: Path) -> None:
    digests = ["6d29bb2dec53cf72d56aad5924b3e2e8", "7c1f" * 8, "e83b" * 8]
    long = f"{'x' * 30}.mp4"  # charts cut the id within its digest
    ids = [f"mine.mp4 {digests[0]}", f"mine.mp4 {digests[1]}", f"{long} {digests[2]}", "boat"]
    turns = [{"time_s": 1.0, "role": "assistant", "text": "Done."}]
    video = {"fps": 2.0, "num_frames": 6, "goal": "", "steps": STEPS, "turns": turns}
    split = write_split(tmp_path, *({"video_id": video_id, **video} for video_id in ids))
    run = save_run(tmp_path / "run", split, failed=[ids[2]])
    write_scores(split, run.path)
    story = tell({"run": "run", "video": ids[1], "time_s": 1.0})
    publish(run, tmp_path / "site", files="none", story=story)
    index = read(tmp_path / "site/data/run.json")
    names = ["mine.mp4", "mine.mp4 2", long, "boat"]
    assert [row["id"] for row in index["videos"]] == names
    assert index["story"]["moments"][0]["video"] == names[1]
    assert read(tmp_path / "site/data/0002-mine-mp4-2.json")["video_id"] == names[1]
    files = [path for path in (tmp_path / "site").rglob("*") if path.is_file() and path.suffix not in (".js", ".css")]
    for digest in digests:
        assert [path for path in files if digest[:8] in path.name or digest[:10].encode() in path.read_bytes()] == []


def test_failed_videos_are_rows_with_a_reason(demo_manifest: Path, tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", demo_manifest, failed=["truck-2"])
    left_out = publish(run, tmp_path / "site")
    assert left_out == {"truck-2": "truck-2 has no outputs: the video is damaged."}
    good, bad = read(tmp_path / "site/data/run.json")["videos"]
    assert (good["remark"], bad["data"], bad["remark"]) == ("", None, left_out["truck-2"])


def tell(*moments: dict[str, Any], title: str = "Why it was late") -> Story:
    return parse_story(json.dumps({"title": title, "moments": moments}))


def test_a_story_comes_first_with_pictures_captions_and_its_other_runs(demo_manifest: Path, tmp_path: Path) -> None:
    runs = [save_run(tmp_path / name, demo_manifest) for name in ("a", "b")]
    story = tell(
        {"run": "b", "video": "truck-2", "time_s": 2.5, "caption": HOSTILE, "event": "e"},
        {
            "run": "a",
            "video": "truck-1",
            "time_s": 1,
            "caption": "1. says\n*nothing*\u202e",
            "sentence": "# Late",
            "evidence": "",
        },
    )
    others = [make_source(runs[1], videos=["truck-2"])]
    assert publish(runs[0], tmp_path / "site", story=story, others=others) == {}
    index = read(tmp_path / "site/data/run.json")
    assert (index["title"], index["story"]["has_runs"]) == ("Why it was late", True)
    assert [row["id"] for row in index["videos"]] == ["truck-1", "truck-2"]  # those of the table's run
    first, second = index["story"]["moments"]
    assert (first["caption"], first["time_s"], first["event"]) == (HOSTILE, 2.5, "e")
    assert second["row"]["data"] == index["videos"][0]["data"]
    packed = read(tmp_path / "site" / first["row"]["data"])
    assert (packed["run_name"], packed["link"]) == ("b", {"video": "truck-2", "moment": "1"})
    assert first["row"]["video"] == index["videos"][1]["video"]  # one copy for both runs
    with Image.open(tmp_path / "site" / first["picture"]) as picture:
        assert picture.format == "JPEG"
    written = (tmp_path / "site" / "story.md").read_text(encoding="utf-8")
    assert written.startswith("# Why it was late\n\n## 1. truck-2, 0:02.5\n\n![Picture of moment 1](story/1.jpg)\n")
    assert "\n1\\. says \\*nothing\\*\\\\u202e\n\n\\# Late\n\nRun a\n" in written
    assert "\\<img src=x onerror=window.hacked=1\\>" in written


def test_a_moment_without_a_sentence_has_that_of_the_mistake_there(tmp_path: Path) -> None:
    run = RunFolder(ASSETS / "demo" / "run")
    mistake = "The assistant noted the start of “put on the head” instead of “mount the block”."
    moment = {"run": "run", "video": "robot-permuted", "caption": "Here."}
    story = tell(
        {**moment, "time_s": 15.4},
        {**moment, "time_s": 14.4},
        {**moment, "time_s": 15, "sentence": "Mine."},
        {**moment, "time_s": 15, "sentence": ""},
    )
    publish(run, tmp_path / "site", videos=["robot-permuted"], files="none", story=story)
    filled, *others = read(tmp_path / "site/data/run.json")["story"]["moments"]
    assert filled["sentence"] == mistake
    assert [other["sentence"] for other in others] == ["", "Mine.", ""]
    assert (tmp_path / "site" / "story.md").read_text(encoding="utf-8").count(mistake) == 1


MOMENT: dict[str, Any] = {"run": "r", "video": "v", "time_s": 1.0}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"moments": [MOMENT] * 11}, "moments"),
        ({"moments": [{**MOMENT, "time_s": -1}]}, "time_s"),
        ({"moments": [MOMENT], "more": "x" * 70_000}, "at most 64 KiB"),
    ],
)
def test_a_story_beyond_its_bounds_is_one_sentence(content: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        parse_story(json.dumps(content))
    assert "\n" not in str(raised.value)


def test_a_folder_of_some_videos_has_their_scores_alone(tmp_path: Path) -> None:
    publish(RunFolder(ASSETS / "demo" / "run"), tmp_path / "one", videos=["robot-permuted"], files="none")
    index = read(tmp_path / "one" / "data" / "run.json")
    (row,) = index["videos"]
    assert (index["num_scored"], index["has_charts"]) == (1, False)
    assert (index["tiles"][0]["figure"], sum(row["failures"]) < 64) == (str(sum(row["failures"])), True)
    assert index["tiles"][0]["label"].startswith(f"Failures, in {row['num_mistakes']} mistake")

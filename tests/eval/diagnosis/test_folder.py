"""``stepscope explain``: files in the run folder, continued after a kill, refused where the run is stale."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.diagnosis.folder import diagnose_run
from stepscope.eval.diagnosis.plan import make_plan
from stepscope.eval.reports.search import search_folders
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.roots import read_roots
from tests.support.data.batches import (
    copies,
    load_letters,
    make_worker_config,
    run_to_end,
    tables,
    write_scores,
    write_split,
)
from tests.support.streams.fakes import tiny_checkpoint
from tests.support.streams.threaded_ray import ThreadedRay


@pytest.fixture(scope="module")
def split(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    return write_split(folder, *copies(demo_manifest, folder, 2))


@pytest.fixture(scope="module")
def finished(split: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    run_to_end(split, make_worker_config(tiny_folder), out, devices="cpu:1")
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in ("diagnosis.folder", "cli.finished_runs", "cli.run_tables"):
        monkeypatch.setattr(f"stepscope.eval.{module}.import_encoder", load_letters)
    return shutil.copytree(finished, tmp_path / "run")


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from stepscope.app.cli.stepscope import main

def kill():
    file = Path(sys.argv[1]) / "diagnosis.json"
    while not (file.exists() and '"v0"' in file.read_text()):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
main(["explain", sys.argv[1], "--device", "cpu:1", "--max-cost", "6"])
"""
"""Ends the program as soon as the file holds the first video."""


def explain(run: Path, *options: str) -> int:
    return main(["explain", str(run), "--device", "cpu:1", "--max-cost", "6", *options])


def test_each_failure_has_a_row_with_its_root(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert explain(run) == 0
    printed = capfd.readouterr().out
    content = json.loads((run / "diagnosis.json").read_text())
    rows = list(csv.DictReader((run / "diagnosis.csv").read_text().splitlines()))
    assert len(rows) == content["num_failures"] == sum(video["num_failures"][0] for video in content["videos"]) > 0
    assert {row["class"] for row in rows} <= {"history", "unexplained"}, "random weights have no class"
    assert content["num_roots"] == sum(len(video["roots"]) for video in content["videos"])
    assert printed.startswith("2 videos of ")
    assert "left out by --max-cost: other words for the goal (2.0), " in printed
    assert "; --max-cost 31 runs all\n" in printed
    assert f"{content['num_roots']} roots" in printed
    assert "placebo" in printed


def test_one_failure_is_explained_by_its_time(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert explain(run, "--video", "v0", "--time", "2") == 0
    lines = capfd.readouterr().out.splitlines()
    assert sum("that root takes along" in line for line in lines) == 1
    assert sum("v0 has no failure at 2 s; the nearest is at " in line for line in lines) <= 1
    assert explain(run, "--video", "v0", "--time", "-1") == 2
    assert [video["video_id"] for video in json.loads((run / "diagnosis.json").read_text())["videos"]] == ["v0"]
    assert explain(run, "--time", "2") == 2
    assert explain(run, "--video", "v9") == 2
    assert "v9 is not a video of" in capfd.readouterr().err


def test_a_question_about_one_video_keeps_the_results_of_all(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert explain(run) == 0
    content = (run / "diagnosis.json").read_text()
    assert explain(run, "--video", "v1", "--max-cost", "2.4") == 0
    assert explain(run, "--max-cost", "2.4") == 0
    assert (run / "diagnosis.json").read_text() == content
    other = json.loads(content)
    other["settings"]["experiments"] = ["twice the frame rate"]
    (run / "diagnosis.json").write_text(json.dumps(other))
    assert explain(run) == 2
    assert "would lose twice the frame rate" in capfd.readouterr().err
    (run / "diagnosis.json").write_text(content)
    (own := run / "own.yaml").write_text("other:\n  steps: {Z9: wheel}\n")
    assert explain(run, "--experiments", str(own)) == 2
    assert "other.steps: there is no step Z9" in capfd.readouterr().err
    own.write_text("other:\n  goal: '{goal}'\npolite:\n  goal: please {goal}\n")
    assert explain(run, "--experiments", str(own), "--max-cost", "nan") == 2
    assert (run / "diagnosis.json").read_text() == content
    for video, left in (("v0", "1 video of "), ("", "2 videos of ")):
        assert explain(run, "--experiments", str(own), "--max-cost", "2.4", *(["--video", video] if video else [])) == 0
        printed = capfd.readouterr()
        assert printed.out.startswith(left)
        assert ("1 of them left to explain" in printed.out) == (not video)
        assert "changes nothing in any video: other\n" in printed.out
        assert "stale" not in printed.err, "its own experiments are added to the results that are there"
        videos = json.loads((run / "diagnosis.json").read_text())["videos"]
        before = [{name: part for name, part in one.items() if name != "results"} for one in other["videos"]]
        after = [{name: part for name, part in one.items() if name not in ("results", "own")} for one in videos]
        assert after == before
        assert ["polite, words mixed" in one["results"] for one in videos] == [True, not video]
        pairs = zip(other["videos"], videos, strict=True)
        assert all(old["results"].items() <= new["results"].items() for old, new in pairs)
    assert explain(run) == 2
    assert "has other experiments of a file; give these" in capfd.readouterr().err


def test_roots_are_in_the_tables_compared_and_searched(
    run: Path, split: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(run, tmp_path / "other")
    assert {row["roots"] for row in read_rows(run)} == {""}
    with pytest.raises(ValueError, match="need a diagnosis that is not stale"):
        search_folders({"run": run}, "class:unexplained")
    assert explain(run, "--max-cost", "2.4") == 0
    updated = tables(run)
    assert [row["roots"] for row in updated["videos"]] == [4, 5]
    write_scores(split, run)
    assert updated == tables(run), "the tables are those of scoring again"
    assert updated["metrics"]["scores"]["roots"] == 9
    found = search_folders({"run": run, "other": other}, "failure:root class:expl")
    assert (found["origin"] == "root").all()
    origins = [row["is_consequence"] for row in csv.DictReader((run / "diagnosis.csv").read_text().splitlines())]
    assert len(found) == origins.count("false")
    assert len(search_folders({"run": run}, "failure:consequence root<9")) == origins.count("true")
    assert len(search_folders({"run": run}, "failure:any -root>=0")) == 0

    capfd.readouterr()
    assert main(["compare", str(run), str(other)]) == 0
    assert "roots are not compared: other has videos without a diagnosis, or with a stale one" in capfd.readouterr().out
    diagnosis = json.loads((run / "diagnosis.json").read_text())
    (moved, *_), counts = (
        diagnosis["videos"][0]["roots"],
        Counter(
            (number, failure["root"])
            for number, video in enumerate(diagnosis["videos"])
            for failure in video["failures"]
        ),
    )
    moved["time_s"] += 100.0
    (other / "diagnosis.json").write_text(json.dumps(diagnosis))
    assert main(["compare", str(run), str(other)]) == 0
    printed, own = capfd.readouterr().out, counts[0, 0]
    rest = counts.total() - own
    assert (
        f"First mistakes (with the failures of their chains): 1 new in B ({own}), 1 gone ({own}), "
        f"8 in both ({rest} in A, {rest} in B)\n" in printed
    )
    line = next(line for line in printed.splitlines() if line.startswith("roots "))
    assert line.split() == ["roots", "9", "9", "+0", "[+0.000,", "+0.000]", "1.000", "1.000"]
    lines = (other / "v1.jsonl").read_text().splitlines(keepends=True)
    (other / "v1.jsonl").write_text("".join(lines).replace('"latency_ms":', ' "latency_ms":'))
    write_scores(split, other)
    assert (
        read_rows(other)[1] | {"roots": "", "warning": "its diagnosis is stale: it was run again"}
        == read_rows(other)[1]
    )
    assert main(["leaderboard", str(run), str(other), "--metric", "roots"]) == 0
    assert [cell.strip() for cell in capfd.readouterr().out.splitlines()[2].split("|")[1:3]] == ["run", "9"]


def read_rows(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((run / "videos.csv").read_text().splitlines()))


@pytest.fixture(scope="module")
def undisturbed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = shutil.copytree(finished, tmp_path_factory.mktemp("undisturbed") / "run")
    assert explain(run) == 0
    return run


@pytest.mark.parametrize("devices", ["cpu:2", "ray"])
def test_workers_give_the_files_of_one_device(
    finished: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ThreadedRay(num_cpus=2))
    run = shutil.copytree(finished, tmp_path / "run")
    assert explain(run, "--device", devices) == 0
    for name in ("diagnosis.json", "diagnosis.csv"):
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes()


def test_a_process_that_is_killed_after_a_video_is_continued_to_the_same_files(
    finished: Path, undisturbed: Path, split: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    command = [sys.executable, "-c", KILLED, str(run)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    videos = json.loads((run / "diagnosis.json").read_text())["videos"]
    assert [video["video_id"] for video in videos] == ["v0"]
    assert not (run / "diagnosis.csv").exists()
    (run / ".diagnosis.json.part").write_text("{")
    steps = diagnose_run(run, make_plan(run, read_split(split), budget=6), devices="cpu:1")
    done = [step if isinstance(step, str) else step.video_id for step in steps]
    assert (done[0], done[1], done[-1]) == ("v0", "v1: run", "v1"), "the first video is kept"
    for name in ("diagnosis.json", "diagnosis.csv"):
        assert (run / name).read_bytes() == (undisturbed / name).read_bytes()


def test_a_diagnosis_of_other_experiments_is_made_again(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert explain(run, "--max-cost", "2.4") == 0
    (own := tmp_path / "own.yaml").write_text("polite:\n  goal: please {goal}\n")
    capfd.readouterr()
    assert explain(run, "--experiments", str(own), "--max-cost", "12") == 0
    assert "is stale, since it has fewer experiments" in capfd.readouterr().err
    names = [effect["name"] for effect in json.loads((run / "diagnosis.json").read_text())["experiments"]]
    assert names[-2:] == ["polite", "polite, words mixed"]


def change_model(run: Path) -> None:
    settings = json.loads((run / "run.json").read_text())
    tiny_checkpoint(run.parent / "checkpoint", seed=1)
    (run / "run.json").write_text(json.dumps({**settings, "checkpoint": str(run.parent / "checkpoint")}))


def change_settings(**values: object) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        settings = json.loads((run / "run.json").read_text())
        config = {**settings["config"], **{name: values[name] for name in ("do_sample",) if name in values}}
        others = {name: value for name, value in values.items() if name != "do_sample"}
        (run / "run.json").write_text(json.dumps({**settings, **others, "config": config}))

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_model, "is stale, since it has another model"),
        (change_settings(recorded={"model": "other", "settings": {}}), "nothing can be run again"),
        (change_settings(imported=["a.json"]), "nothing can be run again"),
    ],
)
def test_a_run_that_cannot_be_made_again_is_refused(
    run: Path, change: Callable[[Path], None], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change(run)
    assert explain(run) == 2
    error = capfd.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (run / "diagnosis.json").exists()


def test_a_budget_below_the_chain_is_refused(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert explain(run, "--max-cost", "1") == 2
    assert "the chain and the gold pass alone cost about 2.3 runs; allow a higher cost" in capfd.readouterr().err


def test_a_video_that_was_replaced_since_the_run_is_left_out_alone(
    run: Path, split: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads((run / "run.json").read_text())
    folder = run.parent / "videos"
    shutil.copytree(split.parent, folder)
    size = (folder / "v1.mp4").stat().st_size
    (folder / "v1.mp4").write_bytes(bytes(size))
    (run / "run.json").write_text(json.dumps({**settings, "split": str(folder / "split.json")}))
    assert explain(run, "--max-cost", "2.4") == 1
    assert "left out: v1: it or its reference has changed in" in capfd.readouterr().err
    assert [video["video_id"] for video in json.loads((run / "diagnosis.json").read_text())["videos"]] == ["v0"]


def test_roots_are_read_without_the_model_and_are_stale_where_the_run_changed(run: Path, split: Path) -> None:
    folder, samples = RunFolder(run), read_split(split).samples
    assert read_roots(folder) is None
    assert explain(run, "--max-cost", "2.4") == 0
    found, rows = read_roots(folder), list(csv.DictReader((run / "diagnosis.csv").read_text().splitlines()))
    assert found is not None
    assert [
        (name, failure.kind, one.roots[failure.root].time_s, failure.is_consequence, one.roots[failure.root].cause)
        for name, one in found.items()
        for failure in one.failures
    ] == [
        (row["video_id"], row["kind"], float(row["root_time_s"]), row["is_consequence"] == "true", row["root_class"])
        for row in rows
    ]
    assert [found[sample.video_id].explain_stale(sample) for sample in samples] == ["", ""]
    corrected = replace(samples[0], turns=samples[0].turns[1:])
    assert found["v0"].explain_stale(corrected) == "its reference or its entry in the split has changed"
    lines = (run / "v1.jsonl").read_text().splitlines(keepends=True)
    (run / "v1.jsonl").write_text("".join(lines[:-1]))
    assert [one.stale for one in (read_roots(folder) or {}).values()] == ["", "it was run again"]
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "model_digest": "other"}))
    stale = {one.stale for one in (read_roots(folder) or {}).values()}
    assert stale == {f"the run has another model ({settings['model_digest']}; now other)"}

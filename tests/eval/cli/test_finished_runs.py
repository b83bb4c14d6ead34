"""The commands on finished runs: a run is scored again without a model, two runs are compared."""

import csv
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.loading import load_model
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import SCORING, copies, make_worker_config, no_java, write_scores, write_split
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import count_letters


@pytest.fixture(scope="module")
def world(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a split of two videos, and a run that talks and a silent one."""
    folder = tmp_path_factory.mktemp("finished")
    split, checkpoint = write_split(folder, *copies(demo_manifest, folder, 2)), load_model(tiny_folder, device="cpu")
    for name, threshold in (("talks", 0.0), ("silent", 1.0)):
        work = make_worker_config(tiny_folder)
        work = replace(work, config=replace(work.config, speak_threshold=threshold))
        with RunFolder.open(folder / name, {"split": str(split.resolve()), **asdict(SCORING)}) as run:
            for sample in read_split(split).samples:
                result = run_sample(checkpoint, work, sample)
                run.save_video(result.record, result.outputs)
        write_scores(split, folder / name)
    return folder


@pytest.fixture
def runs(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the runs; texts are embedded by their letters, and there is no Java."""
    shutil.copytree(world, tmp_path / "runs")
    monkeypatch.setattr(
        "stepscope.eval.cli.finished_runs.import_encoder", lambda name: TextEncoder(name=name, encode=count_letters)
    )
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    return tmp_path / "runs"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_is_scored_again_with_the_settings_that_are_given_and_its_own(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run, before = runs / "talks", contents(runs / "talks")
    assert main(["score", str(run), "--encoder", "other", "--zero-cost", "drop"]) == 0
    shown = capfd.readouterr().out
    assert "2 of 2 videos" in shown
    changes = "text_encoder other (before: letters), dataset none, zero_cost drop (before: keep)"
    assert f"{run}, scored again with {changes}" in shown
    settings, old = json.loads((run / "run.json").read_text()), json.loads(before["run.json"])
    assert settings == {**old, "text_encoder": "other", "zero_cost": "drop"}
    metrics = read_metrics(run)
    assert (metrics["text_encoder"], metrics["zero_cost"], metrics["num_videos"]) == ("other", "drop", 2)
    after = contents(run)
    assert set(after) == set(before)
    outputs = [name for name in before if name.endswith((".jsonl", ".record.json"))]
    assert len(outputs) == 4
    assert [name for name in outputs if after[name] != before[name]] == []

    assert main(["score", str(run), "--encoder", "letters", "--zero-cost", "keep"]) == 0
    assert contents(run)["videos.csv"] == before["videos.csv"]


def test_a_run_is_scored_against_corrected_references(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads((runs / "split.json").read_text())
    for video in content["videos"]:
        video["turns"] = []
    (runs / "corrected.json").write_text(json.dumps(content))
    before = read_metrics(runs / "silent")
    assert main(["score", str(runs / "silent"), "--split", str(runs / "corrected.json")]) == 0
    assert f"scored again with split {(runs / 'corrected.json').resolve()}, text_encoder " in capfd.readouterr().out
    after = read_metrics(runs / "silent")
    assert (before["scores"]["num_missed"], after["scores"]["num_missed"]) == (2, 0)
    assert after["split"] == str((runs / "corrected.json").resolve())
    assert json.loads((runs / "silent" / "run.json").read_text())["split"] == before["split"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("other split", "1 of 2 videos of "),
        ("text scores", "text scores cannot be computed, so that the folder keeps its"),
        ("full disk", "No space left on device"),
    ],
)
def test_an_error_leaves_the_run_as_it_was(
    runs: Path, change: str, reason: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, options = runs / "silent", list[str]()
    match change:
        case "other split":
            videos = json.loads((runs / "split.json").read_text())["videos"]
            (runs / "half.json").write_text(json.dumps({"videos": videos[:1]}))
            options = ["--split", str(runs / "half.json")]
        case "text scores":
            run = runs / "talks"
            metrics = json.loads((run / "metrics.json").read_text())
            (run / "metrics.json").write_text(json.dumps({**metrics, "text_problem": None}))
        case "full disk":
            monkeypatch.setattr("stepscope.eval.reports.scoring.write_json", _fail)
    before = [(path, path.stat().st_ino) for path in run.glob("*")]
    assert main(["score", str(run), *options]) == 2
    error = capfd.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert [(path, path.stat().st_ino) for path in run.glob("*")] == before, "each file is the old one"


def _fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_table_of_differences_has_both_scores_interval_and_p_value(
    runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = [str(runs / "talks"), str(runs / "silent")]
    assert main(["compare", *names, "--out", str(tmp_path / "out.csv")]) == 0
    shown = capfd.readouterr().out
    assert "2 videos" in shown
    assert "fewer than 20 videos" in shown
    rows = {row["score"]: row for row in csv.DictReader((tmp_path / "out.csv").read_text().splitlines())}
    row = rows["missing_rate"]
    (line,) = (line.split() for line in shown.splitlines() if line.startswith("missing_rate "))
    assert line[1:4] == [f"{float(row['a']):.3f}", "1.000", f"{float(row['difference']):+.3f}"]
    assert line[-2:] == [f"{float(row[name]):.3f}" for name in ("p_value", "corrected_p")]
    assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])

    assert main(["compare", *names, "--json"]) == 0
    content = json.loads(capfd.readouterr().out)
    assert (content["num_videos"], content["left_out"], content["zero_cost"]) == (2, {}, "keep")
    by_name = {row["score"]: row for row in content["differences"]}
    assert list(by_name) == list(rows)
    assert by_name["missing_rate"]["difference"] == float(row["difference"])


def test_runs_of_different_splits_are_not_compared(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = json.loads((runs / "silent" / "run.json").read_text())
    (runs / "silent" / "run.json").write_text(json.dumps({**settings, "split": "/elsewhere.json"}))
    assert main(["compare", str(runs / "talks"), str(runs / "silent")]) == 2
    error = capfd.readouterr().err
    assert "the runs are of different splits, " in error
    assert error.count("\n") == 1

"""``stepscope explain --evidence``: which decisions are explained, against what, and what the file keeps."""

import json
import shutil
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.evidence.records import Contrast, read_evidence
from stepscope.engine.records import FrameOutput
from stepscope.eval.cli.explain_command import EVIDENCE_COST
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.diagnosis.evidence import choose_target
from stepscope.eval.runs.folder import RunFolder, evidence_path
from tests.support.data.batches import copies, load_letters, make_worker_config, run_to_end, write_split
from tests.support.data.records import make_output
from tests.support.streams.fakes import tiny_checkpoint


@pytest.fixture(scope="module")
def finished(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    videos = copies(demo_manifest, folder, 2)
    videos[1]["has_reference"] = False
    out = folder / "run"
    run_to_end(write_split(folder, *videos), make_worker_config(tiny_folder), out, devices="cpu:1")
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def explain(run: Path, *options: str) -> int:
    return main(["explain", str(run), "--device", "cpu:1", "--evidence", *options])


def test_the_decision_at_a_time_is_explained_beside_random_weights(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert explain(run, "--video", "v0", "--time", "2") == 0
    (found,) = read_evidence(evidence_path(run, "v0")).decisions
    printed = capfd.readouterr().out
    assert (found.frame_index, found.time_s, found.difference_of) == (4, 2.0, "pixels")
    assert len(found.patches) == 64
    assert f"v0 at 2 s: {found.target}, log-odds {found.log_odds:+.2f}" in printed
    assert f"(random weights {found.random_log_odds:+.2f})" in printed
    assert f" of {len(found.frames)} pictures" in printed
    assert not (run / "diagnosis.json").exists()
    content = evidence_path(run, "v0").read_bytes()
    evidence_path(run, "v0").unlink()
    assert explain(run, "--video", "v0", "--time", "2", "--devices", "cpu:2") == 0
    assert evidence_path(run, "v0").read_bytes() == content


def test_the_roots_with_the_most_consequences_are_explained(
    run: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.eval.diagnosis.folder.import_encoder", load_letters)
    assert explain(run, "--max-cost", "2.4") == 0
    (video,) = json.loads((run / "diagnosis.json").read_text())["videos"]
    roots = sorted(video["roots"], key=lambda root: -root.get("num_consequences", 0))
    costs = list(accumulate(EVIDENCE_COST * (root["frame"] + 1) / 12 for root in roots))  # the video has 12 frames
    number = sum(cost <= 2.4 for cost in costs)
    found = read_evidence(evidence_path(run, "v0")).decisions
    assert 0 < number < len(roots)
    assert [one.frame_index for one in found] == sorted(root["frame"] for root in roots[:number])
    assert f"evidence for {number} of {len(roots)} roots, about {costs[number - 1]:.1f} runs" in capfd.readouterr().out


def test_a_video_without_reference_has_evidence_of_what_the_model_did(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(run), "--device", "cpu:1", "--video", "v1"]) == 2
    assert "correct them first; evidence at a time needs no reference" in capfd.readouterr().err
    assert explain(run, "--video", "v1", "--time", "1") == 0
    (found,) = read_evidence(evidence_path(run, "v1")).decisions
    assert found.target in ("speak", "update", "silence")


def test_evidence_is_kept_until_the_model_or_the_video_changes(
    run: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = evidence_path(run, "v0")
    assert explain(run, "--video", "v0", "--time", "1") == 0
    content = read_evidence(path)
    with monkeypatch.context() as patch:
        patch.setattr("stepscope.eval.diagnosis.evidence.load_checkpoint", None)  # nothing is run again
        assert explain(run, "--video", "v0", "--time", "1") == 0
    assert explain(run, "--video", "v0", "--time", "2") == 0
    assert [found.time_s for found in read_evidence(path).decisions] == [1.0, 2.0]
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_digest": "another"}))
    assert explain(run, "--video", "v0", "--time", "1") == 0
    assert read_evidence(path) == content
    RunFolder(run).delete_video("v0")
    assert not path.exists()


def test_a_decision_that_the_model_does_not_make_again_has_no_evidence(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = (run / "v0.jsonl").read_text().splitlines()
    other = {**json.loads(lines[4]), "response": "words of another model"}
    (run / "v0.jsonl").write_text("\n".join([*lines[:4], json.dumps(other), *lines[5:]]) + "\n")
    assert explain(run, "--video", "v0", "--time", "2") == 1
    assert "failed: v0 at 2 s: the model decides otherwise here than in the run folder" in capfd.readouterr().err


def test_a_time_after_the_end_or_a_broken_file_is_one_sentence(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert explain(run, "--video", "v0", "--time", "99") == 1
    assert "failed: v0 at 99 s: the run has 12 frames, up to 5.5 s" in capfd.readouterr().err
    evidence_path(run, "v0").write_text('{"decisions": [')
    assert explain(run, "--video", "v0", "--time", "2") == 2
    assert "v0.evidence.json" in capfd.readouterr().err


def test_a_video_that_was_replaced_since_the_run_has_no_evidence(
    run: Path, finished: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished.parent, folder := run.parent / "split", ignore=shutil.ignore_patterns("run"))
    (folder / "v0.mp4").write_bytes((folder / "v0.mp4").read_bytes() + bytes(8))
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "split": str(folder / "split.json")}))
    assert explain(run, "--video", "v0", "--time", "2") == 1
    assert "has changed since the run; run it again" in capfd.readouterr().err


def test_another_model_is_refused(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny_checkpoint(run.parent / "checkpoint", seed=1)
    assert explain(run, "--video", "v0", "--time", "2", "--checkpoint", str(run.parent / "checkpoint")) == 2
    assert "is stale, since it has another model" in capfd.readouterr().err


def turn(role: str, text: str) -> Turn:
    return Turn(role=role, time_s=1.0, text=text)  # type: ignore[arg-type]


SILENT = make_output(2)
SPOKEN = replace(SILENT, response="Good.")
UPDATED = replace(SILENT, updates=("S1->start",), legality=("legal",))


@pytest.mark.parametrize(
    ("output", "turns", "target"),
    [
        (UPDATED, (turn("update", "S2->start"),), Contrast(written="S1->start", expected="S2->start")),
        (UPDATED, (turn("update", "S1->start"),), None),
        (UPDATED, (), "update"),
        (SILENT, (turn("update", "S2->start"), turn("assistant", "Good.")), "update"),
        (SILENT, (turn("assistant", "Good."),), "silence"),
        (SPOKEN, (), "speak"),
        (SPOKEN, (turn("assistant", "Stop."),), Contrast(written="Good.", expected="Stop.", kind="response")),
        (SPOKEN, (turn("assistant", "Good."),), None),
    ],
)
def test_a_decision_is_explained_against_its_reference(
    output: FrameOutput, turns: tuple[Turn, ...], target: object
) -> None:
    sample = Sample(video_id="v", goal="", steps=(), fps=2.0, num_frames=9, turns=turns)
    assert choose_target(output, sample, has_updates=True) == target
    assert choose_target(UPDATED, sample, has_updates=False) != "update"

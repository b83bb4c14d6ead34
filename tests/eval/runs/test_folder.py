"""Run folders: refused folders, kept videos, and the files after a full disk or a killed program."""

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import LiveCounts
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample, has_states, output_path
from stepscope.eval.runs.live_recording import SESSION_NAME
from tests.support.data.records import make_output

SETTINGS: dict[str, Any] = {
    "split": "/s.json",
    "model_digest": "a",
    "heads_digest": None,
    "device": "cpu",
    "devices": ["cpu"],
    "config": {"speak_threshold": 0.5, "seed": 0},
    "live": False,
    "kept_features": False,
}
SAMPLE = Sample(
    video_id="a/b: *", video_path=None, fps=2.0, num_frames=3, goal="build", steps=(), turns=(), initial_state={}
)
RECORD = VideoRecord(
    video_id=SAMPLE.video_id,
    source=digest_sample(SAMPLE),
    num_frames=3,
    wall_s=0.5,
    device="cpu",
    peak_memory_mb=9.0,
    warning="odd",
    live=LiveCounts(sums=(1.0, 2.0, 3.0, 4.0, 5.0), num_defined=(1.0,) * 5),
)


def outputs(number: int, *, response: str | None = None) -> list[FrameOutput]:
    return [make_output(index, response=response, legality=()) for index in range(number)]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Return a run folder with one finished video."""
    with RunFolder.open(tmp_path / "run", SETTINGS) as folder:
        folder.save_video(RECORD, outputs(3))
    return tmp_path / "run"


def test_a_record_comes_back_equal(finished: Path) -> None:
    folder = RunFolder(finished)
    assert folder.record(SAMPLE.video_id) == folder.find_finished(SAMPLE) == RECORD
    assert folder.outputs(SAMPLE) == tuple(outputs(3))


def test_a_video_is_finished_only_with_the_same_sample_and_all_its_outputs(finished: Path) -> None:
    folder, path = RunFolder(finished), output_path(finished, SAMPLE.video_id)
    assert folder.find_finished(replace(SAMPLE, goal="another")) is None
    text = path.read_text()
    for damage in (text[: len(text) // 2], "\n".join(text.splitlines()[:2]) + "\n", None):
        path.unlink() if damage is None else path.write_text(damage)
        assert folder.find_finished(SAMPLE) is None
    folder.save_video(RECORD, outputs(3))
    assert folder.find_finished(SAMPLE) == RECORD
    next(finished.glob("*.record.json")).write_text("{")
    assert folder.find_finished(SAMPLE) is None


def test_a_failed_video_has_a_record_and_no_outputs_and_is_run_again(finished: Path) -> None:
    folder = RunFolder(finished)
    folder.save_video(replace(RECORD, error="lost"), ())
    assert not output_path(finished, SAMPLE.video_id).exists()
    assert folder.find_finished(SAMPLE) is None
    found = folder.record(SAMPLE.video_id)
    assert found is not None
    assert found.error == "lost"


def test_a_run_is_continued_only_when_asked_and_with_the_same_settings(finished: Path) -> None:
    with (
        pytest.raises(ValueError, match="holds a run already; continue it with --resume"),
        RunFolder.open(finished, SETTINGS),
    ):
        pass
    for changes, reason in (
        ({"model_digest": "b"}, r"another model \(a; now b\); name a new folder"),
        ({"config": {"speak_threshold": 0.7, "seed": 0}}, r"another speak_threshold \(0\.5; now 0\.7\); name"),
        ({"live": True}, r"another live \(False; now True\)"),
    ):
        with pytest.raises(ValueError, match=reason), RunFolder.open(finished, {**SETTINGS, **changes}, resume=True):
            pass
    with RunFolder.open(finished, {**SETTINGS, "devices": ["cpu", "cpu"], "dataset": "wtag"}, resume=True) as folder:
        assert folder.find_finished(SAMPLE) == RECORD
    assert json.loads((finished / "run.json").read_text())["dataset"] == "wtag"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    for resume in (False, True):
        with (
            pytest.raises(ValueError, match="is not empty and holds no run; name a new folder"),
            RunFolder.open(tmp_path, SETTINGS, resume=resume),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


HOLD = """
import sys, time
from pathlib import Path
from stepscope.eval.runs.output_folder import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_two_programs_cannot_write_one_folder(finished: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(finished)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with (
            pytest.raises(ValueError, match="is being written by another program"),
            RunFolder.open(finished, SETTINGS, resume=True),
        ):
            pass
        other.kill()
    with RunFolder.open(finished, SETTINGS, resume=True):
        pass
    assert not list(finished.glob(".*"))


def test_a_run_of_an_older_version_continues_as_long_as_new_settings_have_their_default(finished: Path) -> None:
    path = finished / "run.json"
    older = json.loads(path.read_text())
    del older["config"]["seed"], older["kept_features"]
    path.write_text(json.dumps(older))
    with pytest.raises(ValueError, match=r"another seed \(0; now 7\), another kept_features \(False; now True\); name"):
        RunFolder(finished).check(
            {**SETTINGS, "config": {"speak_threshold": 0.5, "seed": 7}, "kept_features": True}, resume=True
        )
    with RunFolder.open(finished, SETTINGS, resume=True) as folder:
        assert folder.find_finished(SAMPLE) == RECORD


def test_what_a_killed_program_left_half_is_removed(finished: Path) -> None:
    (finished / ".a.jsonl.x1y2.part").write_text("{")
    with RunFolder.open(finished, SETTINGS, resume=True):
        pass
    assert not list(finished.glob(".*"))


def test_any_name_of_a_video_is_a_file_name(tmp_path: Path) -> None:
    names = ["組" * 200, "組" * 201, "../up", "a" * 300, ".", "run", "\ud83d", "\ud83c" * 200]
    for name in names:
        RunFolder(tmp_path).save_video(replace(RECORD, video_id=name), outputs(1, response=name))
    assert [RunFolder(tmp_path).outputs(replace(SAMPLE, video_id=name))[0].response for name in names] == names
    assert len(list(tmp_path.iterdir())) == 2 * len(names)


def test_an_id_that_looks_like_the_shortened_file_name_of_another_has_its_own_files(tmp_path: Path) -> None:
    long = "a" * 300
    names = [long, output_path(tmp_path, long).stem]
    for name in names:
        RunFolder(tmp_path).save_video(replace(RECORD, video_id=name), outputs(1, response=name))
    assert [RunFolder(tmp_path).outputs(replace(SAMPLE, video_id=name))[0].response for name in names] == names


def test_no_id_of_a_video_forms_a_name_of_our_own_files(tmp_path: Path) -> None:
    ours = {"run.json", "metrics.json", "charts.json", "split.json", "sweep.json", "judgements.json", "videos.csv"}
    ours |= {"columns.csv", "sweep.csv", "video.mp4", "split.json.provenance.json", ".lock", SESSION_NAME}
    for name in ours:
        for video_id in {name, *(name.removesuffix(ending) for ending in (".json", ".jsonl", ".record.json"))}:
            paths = [output_path(tmp_path, video_id), output_path(tmp_path, video_id).with_suffix(".sweep.json")]
            paths.append(RunFolder(tmp_path)._record_path(video_id))
            assert not {path.name.casefold() for path in paths} & ours


def test_a_full_disk_is_an_error_and_leaves_no_half_file(tiny_disk: Path) -> None:
    with RunFolder.open(tiny_disk / "run", SETTINGS) as folder:
        folder.save_video(RECORD, outputs(3))
        with pytest.raises(OSError, match="No space left") as caught:
            folder.save_video(replace(RECORD, video_id="long"), outputs(400))
        assert caught.value.errno == errno.ENOSPC
    assert {path.suffix for path in (tiny_disk / "run").iterdir()} == {".json", ".jsonl"}
    assert folder.find_finished(SAMPLE) == RECORD
    assert folder.record("long") is None
    assert not output_path(tiny_disk / "run", "long").exists()


@pytest.mark.parametrize(("policy", "expected"), [("heads", True), ("streaming-eos", False), ("not-talk", False)])
def test_a_run_of_a_policy_without_updates_has_no_states(policy: str, expected: bool) -> None:
    assert has_states({"config": {"decision_policy": policy}}) is expected
    assert has_states({"config": {"decision_policy": policy}, "has_states": True}), "a recorded run states it"

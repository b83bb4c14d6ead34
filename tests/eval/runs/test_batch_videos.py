"""Batches with invalid videos and records, and the output of the command line."""

import json
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.errors import EngineError
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import InvalidSample
from stepscope.eval.runs.batch import parse_devices, run_batch
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.worker_messages import Progress, WorkerSpec, WorkerStatus
from tests.conftest import Uploads
from tests.support.data.batches import (
    copies,
    load_letters,
    make_worker_config,
    no_java,
    run_to_end,
    tables,
    write_split,
)
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import nan_checkpoint


@pytest.fixture
def bad_split(demo_manifest: Path, uploads: Uploads, tmp_path: Path) -> Path:
    """Return a split of two good videos, a missing file, a damaged one, a turn out of range and a bad record."""
    good, other, lost, damaged, late = copies(demo_manifest, tmp_path, 5)
    shutil.copy(uploads.damaged, tmp_path / "damaged.mkv")
    (tmp_path / "v2.mp4").unlink()
    damaged["video_path"] = "damaged.mkv"
    late["turns"] = [{"time_s": 60.0, "role": "assistant", "text": "Too late."}]
    return write_split(tmp_path, good, lost, damaged, late, {"video_id": 5}, other)


def test_a_broken_line_and_a_second_video_of_one_name_are_entries_of_their_own(tmp_path: Path) -> None:
    clip = {
        "video_uid": "v",
        "inferred_goal": "build",
        "fps": 2,
        "start_frame_idx": 0,
        "end_frame_idx": 9,
        "dst": [],
        "conversation": [],
    }
    lines = [json.dumps(clip), json.dumps(clip)[:-5], json.dumps(clip), json.dumps(clip), "7"]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    entries = read_split(tmp_path / "x.jsonl").entries
    assert [entry.video_id for entry in entries] == ["v", "line 2", "line 3", "line 4", "line 5"]
    reasons = [entry.reason for entry in entries if isinstance(entry, InvalidSample)]
    assert "write one JSON object per line" in reasons[0]
    assert "two videos share the video_id v" in reasons[1]
    listed = [{"video_id": "a"}, {"video_id": "a"}, {"video_id": "a"}]
    names = [entry.video_id for entry in read_split(write_split(tmp_path, *listed)).entries]
    assert names == ["a", "video a", "video a, record 2"]


def test_the_rest_is_scored_and_the_four_are_named_with_exit_code_1(
    bad_split: Path,
    tiny_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.run_command.TextScorer", no_java)
    monkeypatch.setattr("stepscope.eval.cli.run_command.import_encoder", load_letters)
    out = tmp_path / "run"
    options = ["--out", str(out), "--checkpoint", str(tiny_folder), "--devices", "cpu:2"]
    assert main(["run", str(bad_split), *options]) == 1
    complaints = capfd.readouterr().err
    rows = {row["video_id"]: row for row in tables(out)["videos"]}
    assert list(rows) == ["v0", "v2", "v3", "v4", "video number 4", "v1"]
    assert [name for name, row in rows.items() if row["error"]] == ["v2", "v4", "video number 4"]
    assert [name for name, row in rows.items() if row["recall"] != ""] == ["v0", "v3", "v1"]
    assert rows["v3"]["warning"].startswith(f"{tmp_path / 'damaged.mkv'}: damaged, could be read up to 3")
    for name in ("failed: v2: ", "warning: v3: ", "failed: v4: ", "failed: video number 4: "):
        assert name in complaints
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics["errors"]) == {"v2", "v4", "video number 4"}
    assert set(metrics["warnings"]) == {"v3"}

    assert main(["run", str(bad_split), *options]) == 2
    assert "holds a run already; continue it with --resume" in capfd.readouterr().err
    assert main(["run", str(bad_split), *options, "--resume", "--speak-threshold", "0.9"]) == 2
    assert "another speak_threshold (0.5; now 0.9)" in capfd.readouterr().err


def test_a_user_turn_behind_the_end_gets_a_warning_and_other_warnings_are_shown(
    demo_manifest: Path, tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (video,) = copies(demo_manifest, tmp_path, 1)
    video |= {"num_frames": 40, "turns": [{"time_s": 15.0, "role": "user", "text": "Still there?"}]}
    (sample,) = read_samples(write_split(tmp_path, video))

    def warn(_: int) -> None:
        warnings.warn("about something else", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        result = run_sample(checkpoint, make_worker_config(tiny_folder), sample, on_frame=warn)
    assert result.record.warning == (
        "the video ends after 12 of 40 frames; the user turn at 15 s lies after the end of the video and was not fed"
    )
    assert {str(warning.message) for warning in shown} == {"about something else"}


@pytest.mark.parametrize(
    ("num_frames", "start_s", "warning"),
    [(6, None, "has 12 frames, though its record states 6: the rest counts"), (11, None, ""), (6, 0.0, "")],
)
def test_a_video_that_goes_on_after_its_record_gets_a_warning(
    demo_manifest: Path,
    tiny_folder: Path,
    checkpoint: Checkpoint,
    tmp_path: Path,
    num_frames: int,
    start_s: float | None,
    warning: str,
) -> None:
    (video,) = copies(demo_manifest, tmp_path, 1)
    video |= {"num_frames": num_frames, "turns": []} | ({} if start_s is None else {"start_s": start_s})
    (sample,) = read_samples(write_split(tmp_path, video))
    result = run_sample(checkpoint, make_worker_config(tiny_folder), sample)
    assert warning in result.record.warning
    assert bool(warning) == bool(result.record.warning)
    assert len(result.outputs) == (12 if start_s is None else num_frames)


def test_half_a_surrogate_pair_in_every_text_stops_nothing(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    (video,) = copies(demo_manifest, tmp_path, 1)
    half = "\ud83d"
    video |= {"video_id": half, "goal": half, "steps": [{"id": f"S1{half}", "name": half}]}
    video["turns"] = [{"time_s": 1.0, "role": role, "text": f"Go {half}"} for role in ("user", "assistant")]
    out, split = tmp_path / "run", write_split(tmp_path, video)
    (done,) = run_to_end(split, make_worker_config(tiny_folder), out, devices="cpu:1")
    assert (done.record.video_id, done.record.error) == ("?", "")
    (output, *_) = RunFolder(out).outputs(read_split(split).samples[0])
    assert output.dst_state == {"S1?": "not_started"}
    assert [row["video_id"] for row in tables(out)["videos"]] == ["?"]


def test_a_model_whose_probabilities_are_nan_fails_the_video(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    broken = nan_checkpoint(tmp_path / "broken")
    (sample,) = read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))
    result = run_sample(broken, make_worker_config(tiny_folder), sample)
    assert result.record.error.startswith("frame 0 has the probability nan: the weights are damaged")
    assert result.outputs == ()


def test_devices_are_places_for_processes() -> None:
    assert parse_devices("cpu:2") == [WorkerSpec(device="cpu", num_threads=1, num_sharing=2)] * 2
    assert parse_devices("cpu") == [WorkerSpec(device="cpu")]
    for devices, reason in (
        ("cpu:0", "must give a number of processes"),
        ("cpu:x", "must give a number of processes"),
        ("cpu:1,meta", "of several kinds"),
        ("nonsense", "is not available"),
    ):
        with pytest.raises(ValueError, match=reason):
            parse_devices(devices)


def test_a_checkpoint_that_cannot_be_loaded_ends_the_batch_with_its_reason(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_folder, tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "heads.safetensors").unlink()
    events = run_batch(
        read_split(demo_manifest), make_worker_config(tmp_path / "checkpoint"), out=tmp_path / "run", devices="cpu:1"
    )
    with pytest.raises(EngineError, match="heads"):
        list(events)
    assert not (tmp_path / "run").exists()


def test_rate_and_remaining_time_follow_from_frames() -> None:
    moment = Progress(
        num_videos=2, num_finished=1, num_frames=30, num_done=20, elapsed_s=4.0, workers=(WorkerStatus(name="cpu"),)
    )
    assert (moment.frames_per_s, moment.remaining_s) == (5.0, 2.0)  # 20 / 4 s; 10 left at 5 per second
    assert replace(moment, num_done=0).remaining_s is None
    # the last of the 20 frames ended at 4 s, so 2 s were left then, and 1 s at 5 s
    assert [replace(moment, elapsed_s=now_s, paced_s=4.0).remaining_s for now_s in (5.0, 9.0)] == [1.0, 0.0]
    assert replace(moment, paced_s=0.0).remaining_s is None, "one burst has no rate"


@pytest.mark.slow
def test_a_signal_keeps_the_finished_videos_and_says_how_to_go_on(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 20))
    folders = ["--out", str(tmp_path / "run"), "--features", str(tmp_path / "f"), "--checkpoint", str(tiny_folder)]
    command = ["run", str(split), *folders, "--devices", "cpu:1", "--batch-size", "1", "--teacher-forced"]
    program = [sys.executable, "-m", "tests.support.data.eval_command", *command]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not list(tmp_path.glob("run/*.record.json")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    _, complaints = process.communicate()
    assert process.returncode == 143, complaints
    assert f"finished videos are in {tmp_path / 'run'}, --resume runs the rest" in complaints
    assert "Traceback" not in complaints
    assert not list(tmp_path.rglob("*.part"))
    assert 1 <= len(list(tmp_path.glob("run/*.jsonl"))) < 20


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_sentence_and_no_half_file(
    tiny_disk: Path,
    demo_manifest: Path,
    tiny_folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.run_command.TextScorer", no_java)
    monkeypatch.setattr("stepscope.eval.cli.run_command.import_encoder", load_letters)
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 3))
    (tiny_disk / "ballast").write_bytes(bytes(52 * 1024))
    out = tiny_disk / "run"
    command = ["run", str(split), "--checkpoint", str(tiny_folder), "--out", str(out), "--devices", "cpu:1"]
    assert main(command) == 2
    lines = capfd.readouterr().err.splitlines()
    refusals = [line for line in lines if line.startswith("error: ")]
    assert refusals == [line for line in lines if "No space left on device" in line] != []
    for path in out.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not path.name.endswith(".part")
        assert text.endswith(("\n", "}"))
    (tiny_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", str(tiny_disk)], check=True)
    assert main([*command, "--resume"]) == 0, capfd.readouterr().err
    assert sorted(path.name for path in out.glob("*.record.json")) == [f"v{index}.record.json" for index in range(3)]

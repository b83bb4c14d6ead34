"""Batches with invalid videos and records, and the output of the command line."""

import json
import shutil
import warnings
from pathlib import Path

import pytest

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.batch import parse_devices
from stepscope.eval.runs.worker_messages import WorkerSpec
from tests.conftest import Uploads
from tests.support.data.batches import (
    copies,
    load_letters,
    make_worker_config,
    no_java,
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


def test_a_video_that_goes_on_after_its_record_gets_a_warning(
    demo_manifest: Path,
    tiny_folder: Path,
    checkpoint: Checkpoint,
    tmp_path: Path,
) -> None:
    (video,) = copies(demo_manifest, tmp_path, 1)
    video |= {"num_frames": 6, "turns": []}
    (sample,) = read_samples(write_split(tmp_path, video))
    result = run_sample(checkpoint, make_worker_config(tiny_folder), sample)
    assert "has 12 frames, though its record states 6: the rest counts" in result.record.warning
    assert len(result.outputs) == 12


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

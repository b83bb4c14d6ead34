"""Hardware decoding reaches the videos of a run, its folder and its kept features; without it, nothing changes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.video import hardware
from stepscope.engine.video.reader import Frame, read_frames
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Split
from stepscope.eval.runs.batch import build_run_settings, parse_devices, run_batch
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.output_folder import FolderRefusedError
from stepscope.eval.runs.provenance import Provenance
from stepscope.eval.runs.streaming import sample_features
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.streams.batches import run_sample


@pytest.fixture
def split(demo_manifest: Path, tmp_path: Path) -> Split:
    return read_split(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))


@pytest.fixture
def work(tiny_folder: Path) -> WorkerConfig:
    return make_worker_config(tiny_folder, hardware_decoding="cuda")


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "hwdevices_available", lambda: ["drm"])


@pytest.mark.parametrize(("hardware_decoding", "wanted"), [("off", "cpu"), ("cuda", "cuda")])
def test_the_videos_of_a_run_are_decoded_by_the_device(
    checkpoint: Checkpoint,
    tiny_folder: Path,
    split: Split,
    monkeypatch: pytest.MonkeyPatch,
    hardware_decoding: str,
    wanted: str,
) -> None:
    devices: list[str] = []

    def read(path: Path, *, device: str, **options: Any) -> Iterator[Frame]:
        devices.append(device)
        return read_frames(path, **options)

    monkeypatch.setattr(sample_features, "read_frames", read)
    config = make_worker_config(tiny_folder, hardware_decoding=hardware_decoding)
    result = run_sample(checkpoint, config, split.samples[0])
    assert result.record.error == ""
    assert devices == [wanted]


def test_kept_features_are_of_one_way_to_decode(checkpoint: Checkpoint, split: Split, tmp_path: Path) -> None:
    sample = split.samples[0]
    features = SampleFeatures(checkpoint=checkpoint, folder=tmp_path)
    assert features.find(sample) != replace(features, hardware="cuda").find(sample)


def test_a_run_is_resumed_with_the_same_way_to_decode_only(
    split: Split, work: WorkerConfig, tiny_folder: Path, tmp_path: Path
) -> None:
    specs = parse_devices("cpu:1")
    off = build_run_settings(split, make_worker_config(tiny_folder), specs)
    on = build_run_settings(split, work, specs)
    assert on == {**off, "hardware_decoding": "cuda"}
    assert "hardware_decoding" not in off
    with RunFolder.open(tmp_path / "run", off):
        (tmp_path / "run" / "v0.record.json").write_text("{}")
    with pytest.raises(FolderRefusedError, match=r"hardware_decoding \(off; now cuda\)"):
        RunFolder(tmp_path / "run").check(on, resume=True)
    RunFolder(tmp_path / "run").check(off, resume=True)
    assert ("hardware decoding", "cuda") in Provenance.of_settings("run", on).rows()


@pytest.mark.usefixtures("no_device")
def test_a_batch_without_the_device_is_refused_before_anything_is_written(
    split: Split, work: WorkerConfig, tmp_path: Path
) -> None:
    with pytest.raises(VideoError, match=r"^--hardware-decoding cuda needs a build of PyAV"):
        list(run_batch(split, work, out=tmp_path / "run", devices="cpu:1"))
    assert not (tmp_path / "run").exists()

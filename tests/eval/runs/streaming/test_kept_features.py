"""Embeddings that a batch keeps, for a later run with other settings."""

import multiprocessing
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, read_features, write_features
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.streaming import sample_features
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.conftest import Uploads
from tests.support.data.batches import copies, make_worker_config, run_to_end, tables, write_split
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import random_frames


@pytest.mark.slow
def test_another_threshold_takes_the_kept_embeddings_of_a_damaged_video_too(
    demo_manifest: Path, uploads: Uploads, tiny_folder: Path, tmp_path: Path
) -> None:
    videos = copies(demo_manifest, tmp_path, 3)
    shutil.copy(uploads.damaged, tmp_path / "v1.mp4")
    split, worker_config = (
        write_split(tmp_path, *videos),
        make_worker_config(tiny_folder, features=tmp_path / "features"),
    )
    run_to_end(split, worker_config, tmp_path / "a")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "features").iterdir()}
    assert len(files) == 3
    other = replace(worker_config, config=replace(worker_config.config, speak_threshold=0.2))
    run_to_end(split, other, tmp_path / "b")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "features").iterdir()} == files
    first, changed = (tables(tmp_path / name) for name in "ab")
    assert first["outputs"] != changed["outputs"]
    for result in (first, changed):
        assert [bool(row["warning"]) for row in result["videos"]] == [False, True, False]


def test_kept_embeddings_are_used_instead_of_decoding(
    demo_manifest: Path, tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sample,) = read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))
    worker_config = make_worker_config(tiny_folder, features=tmp_path / "features", live=True)

    def run(seen: Callable[[int], None] = lambda _: None) -> tuple[object, ...]:
        result = run_sample(checkpoint, worker_config, sample, on_frame=seen)
        return result.record.error, result.record.live, [output.speak_prob for output in result.outputs]

    frames: list[int] = []
    first = run(frames.append)
    assert frames == list(range(1, 13))

    def refuse(*_: object, **__: object) -> None:
        raise VideoError("nothing may be decoded")

    monkeypatch.setattr(sample_features, "read_frames", refuse)
    assert run() == first
    shutil.rmtree(tmp_path / "features")
    assert run()[0] == "nothing may be decoded"


def write_over_and_over(path: Path, folder: Path) -> None:
    checkpoint = load_model(folder, device="cpu")
    for _ in range(15):
        write_features(path, random_frames(checkpoint, 50), feature_info(checkpoint, fps=2.0))


@pytest.mark.slow
def test_two_processes_that_write_one_feature_file_never_show_half_of_it(
    tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    path = tmp_path / "f.safetensors"
    context = multiprocessing.get_context("forkserver")
    writers = [context.Process(target=write_over_and_over, args=(path, tiny_folder)) for _ in range(2)]
    for writer in writers:
        writer.start()
    num_reads = 0
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            assert len(list(read_features(path, checkpoint, fps=2.0))) == 50
            num_reads += 1
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert num_reads > 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.safetensors"]


@pytest.mark.parametrize("is_absolute", [False, True])
def test_an_id_of_a_split_names_no_features_outside_their_folder(
    checkpoint: Checkpoint, demo_manifest: Path, tmp_path: Path, is_absolute: bool
) -> None:
    (tmp_path / "kept").mkdir()
    for name in ("boat", "kept/boat"):
        (tmp_path / f"{name}.npy").write_bytes(b"")
    sample = replace(read_samples(demo_manifest)[0], video_path=None, video_id="boat")
    kept = tmp_path / "kept"
    features = SampleFeatures(checkpoint=checkpoint, folder=kept)
    assert features.find(sample) == kept / "boat.npy"
    outside = str(tmp_path / "boat") if is_absolute else "../boat"
    with pytest.raises(VideoError, match="names no video file"):
        features.find(replace(sample, video_id=outside))

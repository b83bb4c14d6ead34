"""Embeddings that a batch keeps, for a later run with other settings."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.io.json_records import parse_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.streaming import sample_features
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.streams.batches import run_sample


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


def test_a_record_says_whether_embeddings_were_reused(
    demo_manifest: Path, tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (sample,) = read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))
    worker_config = make_worker_config(tiny_folder, features=tmp_path / "features")
    seen = [run_sample(checkpoint, worker_config, sample).record for _ in range(2)]
    assert [record.reused_features for record in seen] == [False, True]
    old = {name: value for name, value in asdict(seen[0]).items() if name != "reused_features"}
    assert parse_record(VideoRecord, json.dumps(old)).reused_features is None  # of a run folder that is older

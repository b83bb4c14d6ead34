"""One video of a batch: its warnings and errors are its own."""

import json
import shutil
import threading
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from stepscope.engine.io.json_records import parse_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.streaming import sample_features
from stepscope.eval.runs.worker_messages import VideoResult
from tests.conftest import Uploads
from tests.support.data.batches import copies, make_worker_config, write_split
from tests.support.streams.batches import run_sample


def test_two_videos_at_once_each_have_their_own_damage_as_warning(
    demo_manifest: Path, uploads: Uploads, tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """The first begins first and ends first, while the second is under way."""
    (sample,) = read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))
    first, second = (
        replace(sample, video_path=Path(shutil.copy(uploads.damaged, tmp_path / f"{name}.mkv")))
        for name in ("first", "second")
    )
    has_begun, may_end, has_ended = (threading.Event() for _ in range(3))
    results: dict[str, VideoResult] = {}
    shown = warnings.showwarning

    def run(name: str, one: Sample, says: threading.Event, waits: threading.Event) -> None:
        def on_frame(_: int) -> None:
            says.set()
            assert waits.wait(60)

        results[name] = run_sample(checkpoint, make_worker_config(tiny_folder), one, on_frame=on_frame)

    threads = [
        threading.Thread(target=run, args=("first", first, has_begun, may_end)),
        threading.Thread(target=run, args=("second", second, may_end, has_ended)),
    ]
    threads[0].start()
    assert has_begun.wait(60)
    threads[1].start()
    threads[0].join(60)
    has_ended.set()
    threads[1].join(60)
    assert warnings.showwarning is shown
    for name, result in results.items():
        assert result.record.warning.startswith(f"{tmp_path / name}.mkv: damaged, could be read up to 3")
        assert result.record.warning.count("damaged") == 1


def test_a_video_that_cannot_be_hashed_for_its_kept_features_has_its_row(
    demo_manifest: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))

    def refuse(*_: object, **__: object) -> Path:
        raise PermissionError(13, "Permission denied", "v0.mp4")

    monkeypatch.setattr(sample_features, "feature_path", refuse)
    (sample,) = read_samples(split)
    worker_config = make_worker_config(tiny_folder, features=tmp_path / "features")
    result = run_sample(checkpoint, worker_config, sample)
    assert result.record.error == f"{sample.video_path} cannot be read: Permission denied; check its permissions"


def test_a_record_says_whether_embeddings_were_reused(
    demo_manifest: Path, tiny_folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (sample,) = read_samples(write_split(tmp_path, *copies(demo_manifest, tmp_path, 1)))
    worker_config = make_worker_config(tiny_folder, features=tmp_path / "features")
    seen = [run_sample(checkpoint, worker_config, sample).record for _ in range(2)]
    assert [record.reused_features for record in seen] == [False, True]
    old = {name: value for name, value in asdict(seen[0]).items() if name != "reused_features"}
    assert parse_record(VideoRecord, json.dumps(old)).reused_features is None  # of a run folder that is older

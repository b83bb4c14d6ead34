"""Ranges of frames are read from feature files of every format."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch

from stepscope.engine.errors import FeatureError
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, open_features, read_features, write_features
from tests.support.streams.fakes import random_frames


def write_arrow(path: Path, values: np.ndarray, *, is_stream: bool) -> None:
    table = pyarrow.table({"time": list(range(len(values))), "features": values.tolist()})
    new = pyarrow.ipc.new_stream if is_stream else pyarrow.ipc.new_file
    with pyarrow.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


@pytest.mark.parametrize("name", ["f.safetensors", "f.npy", "file.arrow", "stream.arrow", "nested.arrow"])
def test_any_range_of_frames_is_read_from_disk(tmp_path: Path, checkpoint: Checkpoint, name: str) -> None:
    frames = list(random_frames(checkpoint, 9))
    whole = torch.stack([frame.features for frame in frames]).half()
    path, flat = tmp_path / name, whole.numpy()[:, 0]
    if name == "f.safetensors":
        write_features(path, frames, feature_info(checkpoint, fps=2.0))
    elif name == "f.npy":
        np.save(path, flat)
    else:
        write_arrow(path, whole.numpy() if name == "nested.arrow" else flat, is_stream=name == "stream.arrow")
    file = open_features(path, checkpoint, fps=2.0)
    assert file.shape == (9, 1, 32)
    assert torch.equal(file.read(3, 8).half(), whole[3:8])
    assert torch.equal(torch.stack([one.features for one in read_features(path, checkpoint, fps=2.0)]).half(), whole)
    assert file.times_s.tolist() == [index / 2 for index in range(9)]


def test_an_arrow_file_of_other_content_is_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    for name, rows, reason in (
        ("ragged", [[0.0] * 32, [0.0] * 31], "its rows differ in length"),
        ("text", ["a", "b"], "a row must be a list of numbers"),
        ("narrow", [[0.0] * 8], r"holds features \[1, 1, 8\]"),
    ):
        path = tmp_path / f"{name}.arrow"
        table = pyarrow.table({"features": rows})
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(FeatureError, match=reason):
            open_features(path, checkpoint, fps=2.0)
    (tmp_path / "damaged.arrow").write_bytes(b"ARROW1 no")
    with pytest.raises(FeatureError, match="cannot be read as an Arrow file"):
        open_features(tmp_path / "damaged.arrow", checkpoint, fps=2.0)

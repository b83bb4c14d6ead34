"""Frames to embeddings, and tokens from logits."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.readout import Sampler
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, open_features, read_features, write_features
from stepscope.engine.model.features.frame_encoder import encode_images
from stepscope.engine.model.preprocessing import Normalization, normalize_images
from stepscope.engine.model.smolvlm import Pooling
from tests.support.streams.fakes import random_frames, tiny_checkpoint

POOLINGS: tuple[Pooling, ...] = ("none", "mean", "first")


def images(count: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 30, 40, 3), dtype=np.uint8)


def test_images_are_squeezed_to_a_square_and_normalised_per_channel() -> None:
    red = np.zeros((30, 40, 3), np.uint8)
    red[..., 0] = 255
    how = Normalization(mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    pixels = normalize_images([red], size=(24, 24), normalization=how)
    assert pixels.shape == (1, 3, 24, 24)
    # (255 / 255 - 0.5) / 0.5 = 1; (0 - 0.25) / 0.25 = -1; (0 - 0) / 1 = 0
    assert [float(channel.mean()) for channel in pixels[0]] == pytest.approx([1.0, -1.0, 0.0])


def test_the_mean_and_the_first_are_those_of_all_tokens(tmp_path: Path) -> None:
    every, mean, first = (
        torch.stack(encode_images(tiny_checkpoint(tmp_path / name, pooling=name), images(2))) for name in POOLINGS
    )
    assert every.shape == (2, 4, 32)
    assert torch.allclose(every.mean(1, keepdim=True), mean, atol=1e-5)
    assert torch.equal(every[:, :1], first)


def test_greedy_takes_the_likeliest_that_is_allowed() -> None:
    logits = torch.tensor([[0.1, 3.0, 2.0], [4.0, 3.0, 2.0]])
    assert Sampler(StreamConfig()).sample(logits) == (1, 0)
    assert Sampler(StreamConfig(), suppress_tokens=(1,)).sample(logits) == (2, 0)


def test_the_nucleus_keeps_the_fewest_tokens_that_reach_its_mass() -> None:
    # softmax of ln(6), ln(3), ln(1) is 0.6, 0.3, 0.1
    logits = torch.tensor([[6.0, 3.0, 1.0]] * 200).log()
    for top_p, kept in ((0.5, {0}), (0.7, {0, 1}), (1.0, {0, 1, 2})):
        assert set(Sampler(StreamConfig(do_sample=True, top_p=top_p)).sample(logits)) == kept


def write_arrow(path: Path, values: np.ndarray, *, is_stream: bool) -> None:
    table = pyarrow.table({"time": list(range(len(values))), "features": values.tolist()})
    new = pyarrow.ipc.new_stream if is_stream else pyarrow.ipc.new_file
    with pyarrow.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


@pytest.mark.parametrize("name", ["f.safetensors", "f.npy", "file.arrow", "stream.arrow"])
def test_any_range_of_frames_is_read_from_disk(tmp_path: Path, checkpoint: Checkpoint, name: str) -> None:
    frames = list(random_frames(checkpoint, 9))
    whole = torch.stack([frame.features for frame in frames]).half()
    path, flat = tmp_path / name, whole.numpy()[:, 0]
    if name == "f.safetensors":
        write_features(path, frames, feature_info(checkpoint, fps=2.0))
    elif name == "f.npy":
        np.save(path, flat)
    else:
        write_arrow(path, flat, is_stream=name == "stream.arrow")
    file = open_features(path, checkpoint, fps=2.0)
    assert file.shape == (9, 1, 32)
    assert torch.equal(file.read(3, 8).half(), whole[3:8])
    assert torch.equal(torch.stack([one.features for one in read_features(path, checkpoint, fps=2.0)]).half(), whole)
    assert file.times_s.tolist() == [index / 2 for index in range(9)]

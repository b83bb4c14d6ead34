"""Frames to embeddings, and tokens from logits."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import FeatureError
from stepscope.engine.inference.readout import Sampler
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, open_features, read_features, write_features
from stepscope.engine.model.features.frame_encoder import encode, encode_images
from stepscope.engine.model.preprocessing import Normalization, normalize_images
from stepscope.engine.model.smolvlm import Pooling
from stepscope.engine.video.reader import Frame
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


def test_images_are_resized_as_they_are_decoded_so_that_no_batch_of_large_ones_is_held(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    alive, most = list[weakref.ref[Any]](), list[int]()

    def decode() -> Iterator[Frame]:
        for index, image in enumerate(images(20)):
            own = image.copy()
            alive.append(weakref.ref(own))
            most.append(sum(ref() is not None for ref in alive))
            yield Frame(index=index, time_s=index / 2, image=own)

    encoded = torch.stack([frame.features for frame in encode(checkpoint, decode(), batch_size=16)])
    assert max(most) <= 3, "the one at hand, and those that the generators still name"
    whole = images(20)
    assert torch.equal(
        encoded, torch.stack([*encode_images(checkpoint, whole[:16]), *encode_images(checkpoint, whole[16:])])
    )


def test_the_mean_and_the_first_are_those_of_all_tokens(tmp_path: Path) -> None:
    every, mean, first = (
        torch.stack(encode_images(tiny_checkpoint(tmp_path / name, pooling=name), images(2))) for name in POOLINGS
    )
    assert every.shape == (2, 4, 32)
    assert torch.allclose(every.mean(1, keepdim=True), mean, atol=1e-5)
    assert torch.equal(every[:, :1], first)


def test_a_uniform_grey_frame_is_a_frame_like_any_other(tmp_path: Path) -> None:
    """Its normalised pixels are all exactly 0, which transformers' get_image_features takes for padding."""
    checkpoint = tiny_checkpoint(tmp_path)
    grey = np.full((1, 24, 24, 3), 128, np.uint8)
    exact = Normalization(scale=1 / 256)  # 128 / 256 = 0.5 = the mean
    pixels = normalize_images(grey, size=(24, 24), normalization=exact)
    assert not pixels.any()
    mixed = torch.cat([pixels, torch.ones_like(pixels), pixels])
    with torch.inference_mode():
        assert checkpoint.model.encode_images(mixed).shape == (3, 1, 32)


def picked(
    logits: list[float], *, suppress_tokens: tuple[int, ...] = (), count: int = 200, **settings: float
) -> set[int]:
    sampler = Sampler(StreamConfig(do_sample=True, **settings), suppress_tokens=suppress_tokens)  # type: ignore[arg-type]
    return set(sampler.sample(torch.tensor([logits] * count)))


def test_greedy_takes_the_likeliest_that_is_allowed() -> None:
    logits = torch.tensor([[0.1, 3.0, 2.0], [4.0, 3.0, 2.0]])
    assert Sampler(StreamConfig()).sample(logits) == (1, 0)
    assert Sampler(StreamConfig(), suppress_tokens=(1,)).sample(logits) == (2, 0)


def test_sampling_reaches_every_likely_token_and_never_a_forbidden_one() -> None:
    assert picked([1.0, 1.0, 1.0, 1.0], suppress_tokens=(2,)) == {0, 1, 3}


def test_the_nucleus_keeps_the_fewest_tokens_that_reach_its_mass() -> None:
    # softmax of ln(6), ln(3), ln(1) is 0.6, 0.3, 0.1
    logits = [float(np.log(weight)) for weight in (6, 3, 1)]
    assert picked(logits, top_p=0.5) == {0}
    assert picked(logits, top_p=0.7) == {0, 1}
    assert picked(logits, top_p=1.0) == {0, 1, 2}


def test_a_low_temperature_is_nearly_greedy() -> None:
    assert picked([1.0, 1.2, 0.9], temperature=0.01) == {1}


def test_picking_leaves_the_logits_alone() -> None:
    logits = torch.tensor([[1.0, 2.0]])
    Sampler(StreamConfig(), suppress_tokens=(1,)).sample(logits)
    assert logits.tolist() == [[1.0, 2.0]]


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

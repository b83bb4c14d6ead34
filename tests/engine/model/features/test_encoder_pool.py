"""Many videos decoded and encoded together: each has its own frames and errors, and few frames wait."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscope.engine.errors import VideoError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.encoder_pool import EncoderPool
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.video.reader import Frame


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


def draw(shade: int, num_frames: int, *, seen: list[int] | None = None, fails_at: int = -1) -> Iterator[Frame]:
    for index in range(num_frames):
        if index == fails_at:
            raise VideoError(f"frame {index} is damaged")
        if seen is not None:
            seen.append(index)
        yield Frame(index=index, time_s=index / 2, image=np.full((20, 30, 3), shade + index, np.uint8))


def test_videos_encoded_together_have_the_features_of_each_alone(checkpoint: Checkpoint) -> None:
    lengths = (50, 3, 0, 16, 33)
    with EncoderPool(checkpoint, num_cores=2, batch_size=7) as pool:
        together = [pool.encode(draw(10 * number, length)) for number, length in enumerate(lengths)]
        found = [list(video) for video in together]
    for number, length in enumerate(lengths):
        alone = list(encode(checkpoint, draw(10 * number, length)))
        ours = found[number]
        assert [(frame.index, frame.time_s) for frame in ours] == [(frame.index, frame.time_s) for frame in alone]
        for mine, other in zip(ours, alone, strict=True):
            torch.testing.assert_close(mine.features, other.features, atol=1e-5, rtol=1e-5)


def test_a_decoder_that_fails_ends_its_own_video_after_its_readable_frames(checkpoint: Checkpoint) -> None:
    with EncoderPool(checkpoint, num_cores=1) as pool:
        bad, good = pool.encode(draw(0, 30, fails_at=20)), pool.encode(draw(50, 30))
        assert next(good).index == 0
        indices: list[int] = []
        with pytest.raises(VideoError, match="frame 20 is damaged"):
            indices.extend(frame.index for frame in bad)
        assert indices == list(range(20))
        assert [frame.index for frame in good] == list(range(1, 30))


def test_a_long_video_is_decoded_only_a_little_ahead(checkpoint: Checkpoint) -> None:
    seen: list[int] = []
    with EncoderPool(checkpoint, num_cores=2, frames_ahead=32) as pool:
        video = pool.encode(draw(0, 200, seen=seen))
        for index in range(100):
            assert next(video).index == index
            assert len(seen) <= index + 1 + 32
        video.close()
    assert len(seen) < 200

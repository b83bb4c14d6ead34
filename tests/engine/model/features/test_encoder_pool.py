"""Many videos decoded and encoded together: each has its own frames and errors, and few frames wait."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscope.engine.errors import VideoError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features import encoder_pool
from stepscope.engine.model.features.encoder_pool import EncoderPool
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode
from stepscope.engine.video.reader import Frame
from tests.support.streams.published import write_online, write_proassist


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


@pytest.mark.parametrize("write", [write_online, write_proassist])
def test_frames_of_a_published_assistant_are_padded_or_cropped_as_alone(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    published = load_model(write(tmp_path), device="cpu")
    image = np.linspace(0, 255, 20 * 30 * 3).astype(np.uint8).reshape(20, 30, 3)
    frames = [Frame(index=0, time_s=0.0, image=image)]
    with EncoderPool(published, num_cores=1) as pool:
        (together,) = pool.encode(iter(frames))
    (alone,) = encode(published, frames)
    torch.testing.assert_close(together.features, alone.features, atol=1e-5, rtol=1e-5)


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


def test_videos_are_decoded_before_their_first_frame_is_taken(checkpoint: Checkpoint) -> None:
    decoded = threading.Event()

    def draw_two() -> Iterator[Frame]:
        yield from draw(0, 2)
        decoded.set()

    with EncoderPool(checkpoint) as pool:
        video = pool.encode(draw_two())
        assert decoded.wait(60)
        assert [frame.index for frame in video] == [0, 1]
        assert list(video) == []


@pytest.mark.parametrize("is_closed_by_pool", [False, True])
def test_a_video_of_which_nothing_was_taken_is_closed(checkpoint: Checkpoint, *, is_closed_by_pool: bool) -> None:
    began, closed = threading.Event(), threading.Event()

    def draw_until_closed() -> Iterator[Frame]:
        began.set()
        try:
            yield from draw(0, 10_000)
        finally:
            closed.set()

    with EncoderPool(checkpoint, frames_ahead=32) as pool:
        video = pool.encode(draw_until_closed())
        assert began.wait(60)
        if not is_closed_by_pool:
            video.close()
            assert closed.is_set()
            assert list(video) == []
    assert closed.is_set()


@pytest.mark.parametrize(
    ("num_cores", "num_videos", "expected"), [(1, 16, [1]), (2, 16, [1, 1]), (2, 1, [2]), (8, 16, [2, 2, 2, 2])]
)
def test_decoding_threads_share_the_cores(
    num_cores: int, num_videos: int, expected: list[int], checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    monkeypatch.setattr(encoder_pool, "limit_threads", limits.append)
    with EncoderPool(checkpoint, num_cores=num_cores, num_videos=num_videos):
        pass
    assert limits == expected


def test_closing_the_pool_ends_its_threads(checkpoint: Checkpoint) -> None:
    before = threading.active_count()
    with EncoderPool(checkpoint) as pool:
        video = pool.encode(draw(0, 100))
        next(video)
    assert threading.active_count() == before


def test_a_core_is_left_to_the_consumer_unless_it_waits(checkpoint: Checkpoint) -> None:
    has_begun, may_go_on = threading.Semaphore(0), threading.Event()

    def frames() -> Iterator[Frame]:
        has_begun.release()
        assert may_go_on.wait(timeout=60)
        yield from draw(0, 3)

    found: list[FrameFeatures] = []
    with EncoderPool(checkpoint, num_cores=2, num_videos=2) as pool:
        videos = [pool.encode(frames()), pool.encode(frames())]
        assert has_begun.acquire(timeout=60)
        with pool._changed:
            assert not pool._has_core()  # the consumer computes: one thread of the pool works
        consumer = threading.Thread(target=lambda: found.extend(videos[0]))
        consumer.start()
        assert has_begun.acquire(timeout=60)  # it waits: both work
        may_go_on.set()
        consumer.join(timeout=60)
        assert len(found) == 3
        assert len(list(videos[1])) == 3

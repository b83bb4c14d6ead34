"""Many videos in one forward pass: the outputs of each are those that it gives alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.inference.runner import PackedStream, forward_packed
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.stream import StreamRequest
from stepscope.engine.streamer import Streamer
from tests.support.streams.batches import CASES, stream_both, stream_many, video
from tests.support.streams.fakes import random_frames
from tests.support.streams.streams import SHORT, decided, probs


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_many_videos_at_once_give_the_outputs_of_each_alone_frame_by_frame(
    checkpoint: Checkpoint, case: dict[str, Any]
) -> None:
    for together, alone in stream_both(checkpoint, checkpoint, **case):
        assert decided(together) == decided(alone)
        assert torch.allclose(probs(together), probs(alone), atol=1e-4)


def test_packed_streams_of_all_lengths_attend_only_to_their_own_cache(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    random = torch.Generator().manual_seed(0)
    befores = [torch.randn(length, model.hidden_size, generator=random) for length in (9, 1, 30)]
    inputs = [torch.randn(length, model.hidden_size, generator=random) for length in (1, 7, 4, 5)]
    with torch.inference_mode():
        caches = [KVCache(model.num_layers) for _ in range(4)]
        for before, cache in zip(befores, caches, strict=False):
            model(before[None], cache)  # the fourth begins here
        streams = [
            PackedStream(inputs=row, cache=cache, reads=range(len(row)))
            for row, cache in zip(inputs, caches, strict=True)
        ]
        packed = forward_packed(model, streams)
        alone = [model(torch.cat([*befores[n : n + 1], x])[None])[0, -len(x) :] for n, x in enumerate(inputs)]
        for cache, length in zip(caches, (9, 1, 30, 0), strict=True):
            cache.crop_to(length)
        few = zip(streams, ((0,), (2, 6), (3,), (0, 4)), strict=True)
        some = forward_packed(model, [replace(stream, reads=reads) for stream, reads in few])
    assert torch.allclose(packed, torch.cat(alone), atol=1e-5)
    assert torch.allclose(some, packed[[0, 3, 7, 11, 12, 16]], atol=1e-5)
    assert [cache.length for cache in caches] == [10, 8, 34, 5]


def test_a_video_that_ends_makes_room_for_the_next(checkpoint: Checkpoint) -> None:
    streamer = Streamer(checkpoint, StreamConfig(speak_threshold=1, update_threshold=1, prefill_frames=64))
    ended = [
        step.video_id
        for step in streamer.run_many(
            [video(checkpoint, n, length) for n, length in enumerate((200, 5, 5))], max_batch_size=2
        )
        if step.output is None
    ]
    assert ended == ["1", "2", "0"]
    assert streamer.counts.passes < 10


def test_videos_that_fail_at_once_make_room_for_the_next_but_none_is_asked_for_after_none(
    checkpoint: Checkpoint,
) -> None:
    asked: list[str] = []

    def arrive() -> Iterator[StreamRequest | None]:
        for name in ("bad", "worse", "good", "later", "last"):
            asked.append(name)
            if name in ("bad", "worse"):
                yield StreamRequest(video_id=name, features=[], task=Task(goal="long " * 5000))
            else:
                yield None if name == "later" else video(checkpoint, 0, 3)

    streamer = Streamer(checkpoint, StreamConfig(speak_threshold=1, update_threshold=1))
    events = streamer.run_many(arrive(), max_batch_size=2)
    first = next(event for event in events if event.output is not None)
    assert first.output is not None
    assert asked == ["bad", "worse", "good", "later"]
    assert sum(event.output is not None for event in events) == 5


def test_a_video_that_the_end_of_another_brings_is_run_even_if_that_one_ended_at_once(checkpoint: Checkpoint) -> None:
    ended: list[str] = []

    def arrive() -> Iterator[StreamRequest | None]:
        for number in range(3):
            while len(ended) < number:
                yield None
            yield StreamRequest(video_id=str(number), features=[], task=Task())

    for event in Streamer(checkpoint).run_many(arrive(), max_batch_size=4):
        assert event.output is None
        ended.append(event.video_id)
    assert ended == ["0", "1", "2"]


def test_sources_are_opened_together_before_the_first_is_read(checkpoint: Checkpoint) -> None:
    seen: list[str] = []

    class Source:
        """Frames that note when they are asked for."""

        def __init__(self, name: str) -> None:
            self._name, self._frames = name, random_frames(checkpoint, 2)

        def __iter__(self) -> Iterator[FrameFeatures]:
            seen.append(f"open {self._name}")
            return self

        def __next__(self) -> FrameFeatures:
            seen.append(f"read {self._name}")
            return next(self._frames)

    requests = [StreamRequest(video_id=name, features=Source(name), task=Task()) for name in ("a", "b")]
    list(Streamer(checkpoint).run_many(requests))
    assert seen.index("open b") < seen.index("read a")


def test_sampled_texts_are_each_videos_own(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=0, update_threshold=1, do_sample=True, temperature=2.0, seed=4, **SHORT)
    videos = [video(checkpoint, number, 8) for number in range(3)]
    together = stream_many(Streamer(checkpoint, config), videos, max_batch_size=3)
    for one in videos:
        assert decided(together[one.video_id]) == decided(
            list(Streamer(checkpoint, config).run(one.features, one.task))
        )


def test_an_empty_batch_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="max_batch_size must be at least 1"):
        next(Streamer(checkpoint).run_many([], max_batch_size=0))

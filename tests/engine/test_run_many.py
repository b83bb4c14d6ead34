"""Many videos in one forward pass: the outputs of each are those that it gives alone."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.runner import PackedStream, forward_packed
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.stream import Streamer
from tests.support.streams.batches import CASES, stream_both, stream_many, video
from tests.support.streams.streams import SHORT, decided, probs


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_sampled_texts_are_each_videos_own(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=0, update_threshold=1, do_sample=True, temperature=2.0, seed=4, **SHORT)
    videos = [video(checkpoint, number, 8) for number in range(3)]
    together = stream_many(Streamer(checkpoint, config), videos, max_batch_size=3)
    for one in videos:
        assert decided(together[one.video_id]) == decided(
            list(Streamer(checkpoint, config).run(one.features, one.task))
        )

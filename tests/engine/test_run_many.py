"""Many videos in one forward pass: the outputs of each are those that it gives alone."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config import StreamConfig
from engine.control.controller import Task
from engine.errors import ContextError
from engine.inference.packed import forward_packed
from engine.model.checkpoint import Checkpoint
from engine.model.kv_cache import KVCache
from engine.records import FrameOutput, UserTurn
from engine.streamer import Streamer, StreamRequest
from tests.support.streams.fakes import STEPS, random_frames, tiny_checkpoint
from tests.support.streams.streams import SHORT, between, decided, probs

ASKED = (UserTurn(time_s=3.2, text="What is next?"),)


@pytest.fixture(scope="module", params=[0, 1])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"), seed=request.param)


def video(checkpoint: Checkpoint, number: int, num_frames: int) -> StreamRequest:
    task = Task(goal=f"build truck {number}", steps=STEPS, user_turns=ASKED[: number % 2])
    return StreamRequest(
        video_id=str(number), features=list(random_frames(checkpoint, num_frames, seed=number)), task=task
    )


def stream_many(
    streamer: Streamer, videos: list[StreamRequest], *, max_batch_size: int
) -> dict[str, list[FrameOutput]]:
    outputs: dict[str, list[FrameOutput]] = {video.video_id: [] for video in videos}
    for step in streamer.run_many(videos, max_batch_size=max_batch_size):
        assert step.error is None
        if step.output is not None:
            outputs[step.video_id].append(step.output)
    return outputs


def pick_thresholds(checkpoint: Checkpoint, videos: list[StreamRequest], share: float, **limits: Any) -> dict[str, Any]:
    """Pick thresholds that a share of the videos' frames exceed in silence."""
    silent = Streamer(checkpoint, StreamConfig(speak_threshold=1, update_threshold=1, **limits))
    seen = [output for outputs in stream_many(silent, videos, max_batch_size=1).values() for output in outputs]
    return {
        "speak_threshold": between([output.speak_prob for output in seen], share),
        "update_threshold": between([output.update_prob for output in seen], share),
        **limits,
    }


CASES: dict[str, Any] = {
    "lengths": st.lists(st.integers(0, 45), min_size=1, max_size=5),
    "max_batch_size": st.integers(1, 4),
    "lookahead": st.integers(1, 64),
    "draft_tokens": st.sampled_from([0, 3, 24]),
    "share": st.sampled_from([0.0, 0.1, 0.4]),
    "max_seq_len": st.sampled_from([190, 260, 900]),
}
"""Videos and settings for which batches must give the outputs of each video alone."""


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(**CASES)
def test_many_videos_at_once_give_the_outputs_of_each_alone_frame_by_frame(
    checkpoint: Checkpoint,
    lengths: list[int],
    max_batch_size: int,
    lookahead: int,
    draft_tokens: int,
    share: float,
    max_seq_len: int,
) -> None:
    videos = [video(checkpoint, number, length) for number, length in enumerate(lengths)]
    limits = pick_thresholds(checkpoint, videos, share, **{**SHORT, "max_seq_len": max_seq_len})
    config = StreamConfig(lookahead=lookahead, draft_tokens=draft_tokens, **limits)
    together = stream_many(Streamer(checkpoint, config), videos, max_batch_size=max_batch_size)
    alone = Streamer(checkpoint, config.frame_by_frame())
    for one in videos:
        wanted = list(alone.run(one.features, one.task))
        assert decided(together[one.video_id]) == decided(wanted)
        assert torch.allclose(probs(together[one.video_id]), probs(wanted), atol=1e-4)


def test_packed_streams_of_all_lengths_attend_only_to_their_own_cache(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    random = torch.Generator().manual_seed(0)
    befores = [torch.randn(length, model.hidden_size, generator=random) for length in (9, 1, 30)]
    inputs = [torch.randn(length, model.hidden_size, generator=random) for length in (1, 7, 4, 5)]
    with torch.inference_mode():
        caches = [KVCache(model.num_layers) for _ in range(4)]
        for before, cache in zip(befores, caches, strict=False):
            model(before[None], cache)  # the fourth begins here
        packed = forward_packed(model, inputs, caches, [range(len(row)) for row in inputs])
        alone = [model(torch.cat([*befores[n : n + 1], x])[None])[0, -len(x) :] for n, x in enumerate(inputs)]
        for cache, length in zip(caches, (9, 1, 30, 0), strict=True):
            cache.crop_to(length)
        some = forward_packed(model, inputs, caches, [(0,), (2, 6), (3,), (0, 4)])
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


def test_a_failed_video_is_an_event_and_the_rest_continue(checkpoint: Checkpoint) -> None:
    broken = StreamRequest(
        video_id="broken", features=list(random_frames(checkpoint, 3)), task=Task(goal="long " * 5000)
    )
    streamer = Streamer(checkpoint)
    steps = list(streamer.run_many([video(checkpoint, 0, 4), broken, video(checkpoint, 1, 4)], max_batch_size=2))
    assert [step.video_id for step in steps if isinstance(step.error, ContextError)] == ["broken"]
    assert sum(step.output is not None for step in steps) == 8


def test_sampled_texts_are_each_videos_own(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=0, update_threshold=1, do_sample=True, temperature=2.0, seed=4, **SHORT)
    videos = [video(checkpoint, number, 8) for number in range(3)]
    together = stream_many(Streamer(checkpoint, config), videos, max_batch_size=3)
    for one in videos:
        assert decided(together[one.video_id]) == decided(
            list(Streamer(checkpoint, config).run(one.features, one.task))
        )


def test_a_pass_of_many_videos_counts_once(checkpoint: Checkpoint) -> None:
    config = StreamConfig(speak_threshold=1, update_threshold=1, prefill_frames=8)
    streamer = Streamer(checkpoint, config)
    stream_many(streamer, [video(checkpoint, 2, 8), video(checkpoint, 4, 8)], max_batch_size=2)
    assert streamer.counts.passes == 1
    assert streamer.counts.drafted == 0


def test_an_empty_batch_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="max_batch_size must be at least 1"):
        next(Streamer(checkpoint).run_many([], max_batch_size=0))


def test_no_videos_give_nothing(checkpoint: Checkpoint) -> None:
    assert list(Streamer(checkpoint).run_many([])) == []

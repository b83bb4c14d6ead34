"""Streams through a tiny random model: caching, cropping, chunking and refreshing change no output."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import ForwardRequest, FrameTimesRequest, Image
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError, FeatureError, VideoError
from stepscope.engine.inference.readout import ReadoutSpec
from stepscope.engine.inference.runner import Runner
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, prefetch
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import STEPS, counting, random_frames
from tests.support.streams.streams import SHORT, TASK, between, decided


def pick_thresholds(checkpoint: Checkpoint, *, num_frames: int, share: float) -> dict[str, float]:
    """Pick thresholds that about ``share`` of the frames of a silent run exceed."""
    silent = StreamConfig(speak_threshold=1, update_threshold=1, **SHORT)
    outputs = list(Streamer(checkpoint, silent).run(random_frames(checkpoint, num_frames), TASK))
    return {
        "speak_threshold": between([output.speak_prob for output in outputs], share),
        "update_threshold": between([output.update_prob for output in outputs], share),
    }


def run(checkpoint: Checkpoint, num_frames: int, **settings: Any) -> list[FrameOutput]:
    config = StreamConfig(**{**SHORT, **pick_thresholds(checkpoint, num_frames=num_frames, share=0.15), **settings})
    return list(Streamer(checkpoint, config).run(random_frames(checkpoint, num_frames), TASK))


def test_streaming_with_a_cache_equals_one_full_forward_pass(checkpoint: Checkpoint) -> None:
    model, prompt = checkpoint.model, checkpoint.smolvlm_prompt
    schema = prompt.schema(goal="x", steps=STEPS, state={"S1": "not_started", "S2": "completed"})
    turn = (prompt.update_id, *prompt.words("S1->start"), prompt.eos_id)
    frames = torch.randn(6, 1, model.feature_dim, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        images = model.embed_frames(frames)[:, 0]
        words = [model.embed_tokens(torch.tensor(ids)) for ids in (schema, turn)]
        pieces = [torch.cat([words[0], images[:1]]), images[1:2], words[1], images[2:6]]
        cache = KVCache(model.num_layers)
        streamed = torch.cat([model(piece[None], cache)[0] for piece in pieces])
        full = model(torch.cat(pieces)[None])[0]
    assert cache.length == len(full)
    assert torch.allclose(streamed, full, atol=1e-4)


def test_a_cropped_cache_equals_one_that_was_never_extended(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    random = torch.Generator().manual_seed(2)
    first, cropped_part, then = (torch.randn(1, n, model.hidden_size, generator=random) for n in (9, 5, 4))
    with torch.inference_mode():
        cropped, straight = KVCache(model.num_layers), KVCache(model.num_layers)
        model(first, cropped)
        model(cropped_part, cropped)
        cropped.crop_to(9)
        model(first, straight)
        assert torch.equal(model(then, cropped), model(then, straight))


def test_a_forked_cache_is_independent(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    random = torch.Generator().manual_seed(3)
    first, cropped_part, then = (torch.randn(1, n, model.hidden_size, generator=random) for n in (300, 5, 4))
    with torch.inference_mode():
        cache = KVCache(model.num_layers)
        model(first, cache)
        twin = cache.fork()
        model(cropped_part, twin)
        assert (cache.length, twin.length) == (300, 305)
        straight = KVCache(model.num_layers)
        model(first, straight)
        assert torch.equal(model(then, cache), model(then, straight))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_a_new_seed_does_not(checkpoint: Checkpoint) -> None:
    sampled: dict[str, Any] = {"do_sample": True, "temperature": 2.0}
    first = run(checkpoint, 30, seed=5, **sampled)
    assert decided(first) == decided(run(checkpoint, 30, seed=5, lookahead=9, **sampled))
    assert decided(first) != decided(run(checkpoint, 30, seed=6, **sampled))


def test_a_decision_has_the_time_of_its_instant_not_that_of_the_picture(checkpoint: Checkpoint) -> None:
    stills = [replace(frame, time_s=0.15) for frame in random_frames(checkpoint, 22)]
    times_s = [output.time_s for output in Streamer(checkpoint, StreamConfig(**SHORT)).run(stills)]
    assert times_s == [index / 2 for index in range(22)]


def test_a_silent_token_decides_instead_of_the_heads(checkpoint: Checkpoint) -> None:
    frames = list(random_frames(checkpoint, 4))
    config = StreamConfig(decision_policy="silent-token", speak_threshold=1, update_threshold=1)
    runner = Runner(checkpoint.model, config, features=iter(frames), readout_spec=ReadoutSpec(silent_id=7))
    words = checkpoint.prompt.words("hello")
    inputs: tuple[int | Image, ...] = (*words, Image(frame_index=0))
    request = ForwardRequest(num_cached=0, inputs=inputs, frames=range(1), decision_positions=(len(inputs) - 1,))
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=4))
    decision = runner.forward(request).decisions[0]
    with torch.inference_mode():
        embeddings = torch.cat([checkpoint.model.embed_tokens(torch.tensor(words)), frames[0].features])
        silent = checkpoint.model.token_logits(checkpoint.model(embeddings[None])[0, -1:]).softmax(-1)[0, 7]
    assert decision.speak_prob == pytest.approx(1 - float(silent), abs=1e-6)
    assert decision.update_prob == 0.0


def test_features_of_a_wrong_width_are_refused(checkpoint: Checkpoint) -> None:
    frames = [FrameFeatures(index=0, time_s=0.0, features=torch.zeros(1, 7))]
    with pytest.raises(FeatureError, match=r"features \[1, 7\].*takes \[1, 32\]"):
        list(Streamer(checkpoint).run(frames))


def test_features_that_are_not_finite_name_their_own_frame(checkpoint: Checkpoint) -> None:
    frames = list(random_frames(checkpoint, 10))
    frames[7].features[0, 3] = torch.nan
    with pytest.raises(FeatureError, match=r"^frame 7 has features that are not finite: their file is damaged"):
        list(Streamer(checkpoint, StreamConfig(lookahead=4)).run(iter(frames), Task(steps=STEPS)))


def test_an_error_of_the_reader_is_raised_in_the_consumer() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise VideoError("the file ends here")

    ahead = prefetch(broken(), depth=3)
    assert next(ahead) == 1
    with pytest.raises(EngineError, match="the file ends here"):
        next(ahead)


def test_live_input_is_never_waited_for(checkpoint: Checkpoint) -> None:
    pulled: list[int] = []
    config = StreamConfig(speak_threshold=0, update_threshold=0, lookahead=1, **SHORT)  # it writes text at every frame
    outputs = Streamer(checkpoint, config).run(counting(random_frames(checkpoint, 6), pulled.append))
    for output in outputs:
        assert output.response is not None
        assert pulled[-1] == output.frame_index

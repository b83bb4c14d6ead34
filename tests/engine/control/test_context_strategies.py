"""Every context strategy: faster streaming gives the outputs of frame by frame, which are those of its definition."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.model.attention import shift_keys
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from tests.support.streams.batches import stream_many
from tests.support.streams.fakes import random_frames, tiny_checkpoint
from tests.support.streams.graphs import with_graphs
from tests.support.streams.streams import TASK, assert_equal, between, decided

NUM_FRAMES = 110
LIMITS: dict[str, Any] = {
    "max_new_tokens": 6,
    "max_update_tokens": 5,
    "max_seq_len": 220,
    "reserved_seq_len": 90,
    "kept_tokens": 30,
    "max_summary_tokens": 8,
    "max_updates_per_frame": 2,
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"), is_terse=True)


@pytest.fixture(scope="module")
def frames(checkpoint: Checkpoint) -> list[FrameFeatures]:
    return list(random_frames(checkpoint, NUM_FRAMES))


def settings(checkpoint: Checkpoint, frames: list[FrameFeatures], strategy: str, share: float) -> StreamConfig:
    """Return settings at which about a share of the frames speaks, and half of it updates."""
    silent: dict[str, Any] = {**LIMITS, "context_strategy": strategy, "speak_threshold": 1, "update_threshold": 1}
    outputs = list(Streamer(checkpoint, StreamConfig(**silent)).run(frames, TASK))
    speak = between([output.speak_prob for output in outputs], share)
    update = between([output.update_prob for output in outputs], share / 2)
    return StreamConfig(**{**silent, "speak_threshold": speak, "update_threshold": update})


@pytest.fixture(scope="module", params=["sink-window", pytest.param("summarize-and-drop", marks=pytest.mark.slow)])
def config(request: pytest.FixtureRequest, checkpoint: Checkpoint, frames: list[FrameFeatures]) -> StreamConfig:
    return settings(checkpoint, frames, request.param, 0.15)


@pytest.fixture(scope="module")
def expected(checkpoint: Checkpoint, config: StreamConfig, frames: list[FrameFeatures]) -> list[FrameOutput]:
    return list(Streamer(checkpoint, config.frame_by_frame()).run(frames, TASK))


def test_look_ahead_and_drafts_give_the_outputs_of_frame_by_frame(
    checkpoint: Checkpoint, config: StreamConfig, expected: list[FrameOutput], frames: list[FrameFeatures]
) -> None:
    streamer = Streamer(checkpoint, config)
    assert_equal(list(streamer.run(iter(frames), TASK)), expected)
    assert sum(output.refreshed for output in expected) >= 2
    assert sum(output.response is not None for output in expected) > 3


def test_batches_and_static_steps_give_the_outputs_of_each_video_alone(
    checkpoint: Checkpoint, config: StreamConfig, expected: list[FrameOutput], frames: list[FrameFeatures]
) -> None:
    videos = [
        StreamRequest(video_id=str(number), features=frames[: NUM_FRAMES - 9 * number], task=TASK)
        for number in range(2)
    ]
    packed = stream_many(Streamer(checkpoint, config), videos, max_batch_size=2)
    static = stream_many(Streamer(with_graphs(checkpoint), config), videos, max_batch_size=2)
    for number, video in enumerate(videos):
        wanted = expected[: NUM_FRAMES - 9 * number]
        assert_equal(packed[video.video_id], wanted)
        assert_equal(static[video.video_id], wanted)


@pytest.mark.slow
def test_a_moved_threshold_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint, config: StreamConfig, expected: list[FrameOutput], frames: list[FrameFeatures]
) -> None:
    first = Recording(checkpoint, frames, task=TASK, config=config)
    assert_equal(list(first.run()), expected)
    moved = settings(checkpoint, frames, config.context_strategy, 0.3)
    wanted = list(Streamer(checkpoint, moved.frame_by_frame()).run(frames, TASK))
    assert decided(wanted) != decided(expected)
    again = first.at(speak_threshold=moved.speak_threshold, update_threshold=moved.update_threshold)
    assert_equal(list(again.run()), wanted)


@pytest.mark.parametrize("asked", [None, AskedQuestions(fps=2)])
def test_a_question_before_the_last_cut_gives_the_outputs_of_a_new_run(
    checkpoint: Checkpoint,
    config: StreamConfig,
    expected: list[FrameOutput],
    frames: list[FrameFeatures],
    asked: AskedQuestions | None,
) -> None:
    first = Recording(checkpoint, iter(frames), task=TASK, config=config)
    list(first.run())
    *_, cut = (output.frame_index for output in expected if output.refreshed)
    question = UserTurn(time_s=(cut - 2) / config.fps, text="hm?")
    task = replace(TASK, questions=(question,))
    again = first.with_question(question, asked=asked)
    assert_equal(list(again.run()), list(Streamer(checkpoint, config.frame_by_frame()).run(frames, task)))


def test_the_probabilities_are_those_of_the_definition_written_out(
    checkpoint: Checkpoint, frames: list[FrameFeatures]
) -> None:
    """Silent streams on plain transformers; of a window, each key is rotated at its position in the cache."""
    model, prompt = checkpoint.model, checkpoint.prompt
    states = dict.fromkeys((step.id for step in TASK.steps), "not_started") | dict(TASK.initial_state)
    ids = prompt.schema(goal=TASK.goal, steps=TASK.steps, state=states)
    silent = StreamConfig(**LIMITS, speak_threshold=1, update_threshold=1)
    task = replace(TASK, user_turns=())
    for strategy in ("drop-all", "drop-middle", "sink-window"):
        found = Streamer(checkpoint, replace(silent, context_strategy=strategy)).run(frames, task)
        wanted, cache = list[float](), KVCache(model.num_layers)
        with torch.inference_mode():
            model(model.embed_tokens(torch.tensor(ids))[None], cache)
            for frame in frames:
                if cache.length >= silent.refresh_at:
                    length, kept = cache.length, silent.kept_tokens if strategy != "drop-all" else 0
                    head = len(ids) if kept else 0
                    old, cache = cache, KVCache(model.num_layers)
                    for before, after in zip(old.layers, cache.layers, strict=True):
                        keys, values = before.update(*(torch.zeros(1, 2, 0, 8) for _ in range(2)))
                        tail = keys[:, :, length - kept :]
                        if strategy == "sink-window":
                            for row in range(kept):  # one key after the other: back to position 0, then to its new one
                                unrotated = shift_keys(
                                    model.text_model, tail[:, :, row : row + 1], distance=length - kept + row
                                )
                                tail[:, :, row] = shift_keys(model.text_model, unrotated, distance=-head - row)[:, :, 0]
                        after.update(
                            torch.cat([keys[:, :, :head], tail], 2),
                            torch.cat([values[:, :, :head], values[:, :, length - kept :]], 2),
                        )
                hidden = model(model.embed_frames(frame.features)[None], cache)[0, -1:]
                wanted.append(float(model.decision_logits(hidden)[0].sigmoid()))
        assert [output.speak_prob for output in found] == pytest.approx(wanted, abs=1e-5)


def test_shifted_keys_are_those_of_tokens_at_earlier_positions(checkpoint: Checkpoint) -> None:
    text = checkpoint.model.text_model
    states = torch.randn(1, 5, checkpoint.model.hidden_size, generator=torch.Generator().manual_seed(0))

    def keys_at(first: int) -> torch.Tensor:
        cache = KVCache(checkpoint.model.num_layers)
        text(inputs_embeds=states, position_ids=torch.arange(first, first + 5)[None], past_key_values=cache)
        keys: torch.Tensor = cache.layers[0].update(*(torch.zeros(1, 2, 0, 8) for _ in range(2)))[0]
        return keys

    with torch.inference_mode():
        assert torch.allclose(shift_keys(text, keys_at(700), distance=660), keys_at(40), atol=1e-4)
        assert not torch.allclose(keys_at(700), keys_at(40), atol=1e-2)

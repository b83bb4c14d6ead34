"""Inspection of one frame: the tokens that were fed, with log-probabilities of one forward pass."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Image, Piece
from stepscope.engine.inference.runner import embed_inputs, forward_batch
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import random_frames, tiny_checkpoint
from tests.support.streams.streams import SHORT, TASK, between

NUM_FRAMES = 40
FedContext = tuple[tuple[Piece, ...], tuple[Piece, ...], bool]
"""The context after a frame, that before it, and whether it began with this frame."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny_checkpoint(tmp_path_factory.mktemp("tiny"), is_terse=True)


@pytest.fixture(scope="module")
def frames(checkpoint: Checkpoint) -> list[FrameFeatures]:
    return list(random_frames(checkpoint, NUM_FRAMES))


@pytest.fixture(scope="module")
def config(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> StreamConfig:
    """Return settings with which a third of the frames speak or update, with refreshes."""
    never = StreamConfig(**{**SHORT, "speak_threshold": 1, "update_threshold": 1})
    silent = list(Streamer(checkpoint, never).run(frames, TASK))
    speak = between([output.speak_prob for output in silent], 0.3)
    update = between([output.update_prob for output in silent], 0.3)
    return StreamConfig(**{**SHORT, "speak_threshold": speak, "update_threshold": update})


def run_one_by_one(
    checkpoint: Checkpoint, frames: list[FrameFeatures], config: StreamConfig, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[FrameOutput], list[FedContext]]:
    """Run frame by frame and token by token, and note the context at each frame as the passes fed it."""
    context: list[Piece] = []
    real = forward_batch

    def spy(runners: Any, inputs: Any, requests: Any, **more: Any) -> Any:
        (request,) = requests
        if request.num_cached == 0:
            context.clear()
        assert request.num_cached == len(context), "without drafts nothing is cropped"
        context.extend(request.inputs)
        return real(runners, inputs, requests, **more)

    monkeypatch.setattr("stepscope.engine.stream.forward_batch", spy)
    outputs, fed = list[FrameOutput](), list[FedContext]()
    before: tuple[Piece, ...] = ()
    for output in Streamer(checkpoint, config.frame_by_frame()).run(iter(frames), TASK):
        is_new = tuple(context[: len(before)]) != before or not before
        outputs.append(output)
        fed.append((tuple(context), () if is_new else before, is_new))
        before = tuple(context)
    monkeypatch.undo()
    return outputs, fed


def test_the_tokens_are_those_that_the_engine_feeds_at_the_frame(
    checkpoint: Checkpoint, frames: list[FrameFeatures], config: StreamConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, fed = run_one_by_one(checkpoint, frames, config, monkeypatch)
    assert any(output.refreshed for output in outputs)
    assert any(output.updates for output in outputs)
    assert any(output.response for output in outputs)
    recording = Recording(checkpoint, frames, task=TASK, config=replace(config, lookahead=8))
    assert [output.updates for output in recording.run()] == [output.updates for output in outputs]
    for index, (context, before, is_new) in enumerate(fed):
        found = recording.inspect(index)
        tokens = [Image(frame_index=index) if t.token_id is None else t.token_id for t in found.tokens if t.is_fed]
        prompt = found.prompt_tokens if is_new else 0
        assert tokens == list(context[len(before) + prompt :]), f"frame {index}"
        assert found.earlier_tokens == len(before) + prompt
        assert checkpoint.prompt.tokenizer.decode(list(context[: found.prompt_tokens])) == found.prompt
        assert found.decision.speak_prob == pytest.approx(outputs[index].speak_prob, abs=1e-4)
        assert found.decision.update_prob == pytest.approx(outputs[index].update_prob, abs=1e-4)
        assert (found.first_frame == index) == is_new


def test_the_log_probabilities_are_those_of_one_full_forward_pass(
    checkpoint: Checkpoint, frames: list[FrameFeatures], config: StreamConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, fed = run_one_by_one(checkpoint, frames, config, monkeypatch)
    index = next(n for n, output in enumerate(outputs) if output.response and n > 3)
    recording = Recording(checkpoint, frames, task=TASK, config=config)
    list(recording.run())
    found = recording.inspect(index)
    context = fed[index][0]
    with torch.inference_mode():
        inputs = [frames[piece.frame_index].features if isinstance(piece, Image) else piece for piece in context]
        hidden = checkpoint.model(embed_inputs(checkpoint.model, inputs)[None])[0]
        logprobs = checkpoint.model.token_logits(hidden).log_softmax(-1)
    shown = [token for token in found.tokens if token.is_fed]
    for place, token in enumerate(shown, start=len(context) - len(shown)):
        if token.token_id is not None:
            assert token.logprob == pytest.approx(float(logprobs[place - 1, token.token_id]), abs=1e-5)
            assert token.logprob is not None
            assert token.best_logprob is not None
            assert token.best_logprob >= token.logprob
    assert [token.text for token in found.tokens].count("[ASST]") == 1
    assert not found.tokens[-1].is_fed, "the token that was sampled last is fed at the next frame"

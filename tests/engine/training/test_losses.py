"""The losses equal sums that are worked out by hand."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.losses import draw_labels, sum_losses
from stepscope.engine.training.objective import Batch, StreamObjective
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn, build_sequence
from stepscope.engine.training.trainer import Trainer
from tests.support.streams.fakes import STEPS, tiny_checkpoint

CLIP = TrainingClip(
    goal="g", steps=STEPS, num_frames=4, turns=(TrainingTurn(frame_index=1, role="update", text="S1->start"),)
)


def zeroed(folder: Path) -> Trainer[Batch]:
    """Return a trainer of a model whose logits are all 0: every token has probability 1/V, every decision 1/2."""
    checkpoint = tiny_checkpoint(folder)
    with torch.no_grad():
        checkpoint.smolvlm.vlm.lm_head.weight.zero_()
        for head in (checkpoint.smolvlm.speaking_decision_head, checkpoint.smolvlm.dst_update_head):
            head.weight.zero_()
            head.bias.zero_()
    config = TrainConfig(learning_rate=0.0, autocast="float32")
    return Trainer(StreamObjective(checkpoint.smolvlm.requires_grad_(True), config))


def test_losses_of_a_uniform_model_equal_those_by_hand(tmp_path: Path) -> None:
    trainer = zeroed(tmp_path)
    checkpoint = tiny_checkpoint(tmp_path)
    sequence = build_sequence(CLIP, checkpoint.smolvlm_prompt)
    losses = trainer.step(([sequence], torch.zeros(4, 32))).parts
    vocab = checkpoint.smolvlm.vlm.config.text_config.vocab_size
    # each token of "S1->start <eos>" has probability 1 / V, so the mean is ln V
    assert losses["text"] == pytest.approx(math.log(vocab), rel=1e-5)
    # four frames without a response: -ln(1 - 1/2) each, so the mean is ln 2
    assert losses["speak"] == pytest.approx(math.log(2), rel=1e-5)
    # labels 0, 1, then 0 after the update's <eos>, 0, 0; the one positive weighs 1.5: (4 ln 2 + 1.5 ln 2) / 5
    assert losses["update"] == pytest.approx(5.5 * math.log(2) / 5, rel=1e-5)


def test_logits_of_the_heads_enter_by_label_and_weight(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    with torch.no_grad():
        checkpoint.smolvlm.dst_update_head.weight.zero_()
        checkpoint.smolvlm.dst_update_head.bias.fill_(2.0)
    sequences = [build_sequence(CLIP, checkpoint.smolvlm_prompt)]
    labels = draw_labels(sequences, negative_rate=1.0, random=torch.Generator().manual_seed(0))
    sums = sum_losses(checkpoint.smolvlm, sequences, labels, torch.zeros(4, 32), positive_weight=3.0)
    # a logit of 2 costs ln(1 + e^2) at each of four negatives and 3 ln(1 + e^-2) at the positive
    wanted = 4 * math.log(1 + math.exp(2)) + 3 * math.log(1 + math.exp(-2))
    assert float(sums[2]) == pytest.approx(wanted, rel=1e-5)


def test_the_silent_token_is_the_target_of_frames_without_a_response(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    clip = TrainingClip(
        goal="g", steps=STEPS, num_frames=3, turns=(TrainingTurn(frame_index=1, role="assistant", text="Go"),)
    )
    sequences = [build_sequence(clip, checkpoint.smolvlm_prompt)]
    silent, opening = 7, checkpoint.smolvlm_prompt.response_id
    labels = draw_labels(sequences, negative_rate=1.0, random=torch.Generator().manual_seed(0))
    images = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    model = checkpoint.smolvlm
    sums = sum_losses(model, sequences, labels, images, positive_weight=2.0, silent_id=silent, response_id=opening)
    ids = torch.tensor(sequences[0].ids)
    inputs = model.embed_tokens(ids).clone()
    frames = [at for at, frame in enumerate(sequences[0].frames) if frame >= 0]
    inputs[frames] = images
    logprobs = model.token_logits(model(inputs[None])[0]).log_softmax(-1)
    first, spoken, last = frames
    wanted = -logprobs[first, silent] - 2 * logprobs[spoken, opening] - logprobs[last, silent]
    assert float(sums[1]) == pytest.approx(float(wanted), rel=1e-4)
    assert float(sums[2]) == 0.0


def train(folder: Path, **changes: Any) -> tuple[list[float], Trainer[Batch]]:
    """Return the losses of texts in three steps on a clip whole and from its middle, and the trainer."""
    checkpoint = tiny_checkpoint(folder)
    config = TrainConfig(**{"num_steps": 3, "learning_rate": 1e-2, "autocast": "float32", **changes})
    trainer = Trainer(StreamObjective(checkpoint.smolvlm.requires_grad_(True), config))
    sequences = [build_sequence(CLIP, checkpoint.smolvlm_prompt, first_frame=first) for first in (0, 2)]
    features = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    return [trainer.step((sequences, features)).parts["text"] for _ in range(3)], trainer


def test_accumulation_checkpointing_and_another_format_change_no_loss(tmp_path: Path) -> None:
    whole, _ = train(tmp_path)
    assert whole[2] < whole[0]
    assert train(tmp_path, micro_batch_size=1)[0] == pytest.approx(whole, rel=1e-4)
    assert train(tmp_path, gradient_checkpointing=True)[0] == pytest.approx(whole, rel=1e-5)
    short, trainer = train(tmp_path, autocast="bfloat16", learning_rate=1e-3)
    exact, _ = train(tmp_path, learning_rate=1e-3)
    assert short == pytest.approx(exact, rel=2e-2)
    assert short != exact, "it computes in another format"
    assert {tensor.dtype for tensor in trainer.state()[0].values()} == {torch.float32}

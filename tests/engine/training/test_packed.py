"""Branches are learned as the stream asks them, and states as it writes them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.questions import SPEAK_QUESTION
from stepscope.engine.control.requests import Image
from stepscope.engine.control.task import Task
from stepscope.engine.decisions.signals import parse_states
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint, load_checkpoint
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.stream import Streamer, StreamRequest
from stepscope.engine.training.packed import draw_branches, sum_branch_losses
from stepscope.engine.training.sequences import (
    IGNORE_INDEX,
    ContextRules,
    TrainingClip,
    TrainingTurn,
    build_sequence,
)
from tests.support.streams.fakes import STEPS, random_frames
from tests.support.streams.hub import write_hub

TURNS = (
    TrainingTurn(frame_index=1, role="update", text="S1->start"),
    TrainingTurn(frame_index=1, role="assistant", text="Good."),
    TrainingTurn(frame_index=3, role="update", text="S1->complete"),
    TrainingTurn(frame_index=3, role="update", text="S2->start"),
)
CLIP = TrainingClip(goal="g", steps=STEPS, num_frames=5, turns=TURNS)
ASKED = ContextRules(decisions="answer")


def make_checkpoint(kind: str, folder: Path) -> Checkpoint:
    return load_checkpoint(write_hub(folder, kind), device="cpu", dtype="float32")


def shape_of(model: VisionLanguageModel) -> tuple[int, ...]:
    """Return the shape of the features of a frame, of 2 x 3 tokens where a video decides."""
    return tuple(size or 2 + axis for axis, size in enumerate(model.feature_shape))


def test_questions_have_the_answers_of_the_reference_and_updates_are_not_written(tmp_path: Path) -> None:
    prompt = load_model(write_hub(tmp_path, "llava"), device="cpu").trained_prompt
    sequence = build_sequence(CLIP, prompt, tokens_per_frame=4, rules=ASKED)
    text = prompt.tokenizer.decode
    assert "S1->start" not in text(sequence.ids)
    asked = [
        (text(branch.ids), text([branch.targets[-1]]).strip().lower(), branch.is_kept) for branch in sequence.branches
    ]
    found = {
        name: [(answer, is_kept) for words, answer, is_kept in asked if name in words]
        for name in (
            'started the step "attach',
            'completed the step "attach',
            'started the step "put',
            'completed the step "put',
        )
    }
    assert list(found.values()) == [
        [("no", False), ("yes", True)],  # at the frames 0 and 1
        [("no", True), ("yes", True)],  # at 2, right after an update, and 3
        [("no", True), ("yes", True)],
        [("no", True)],  # at 4, right after two updates
    ]
    spoken = [answer for words, answer, _ in asked if SPEAK_QUESTION in words]
    assert spoken == ["no", "yes", "no", "no", "no"]


@pytest.mark.parametrize("kind", ["smolvlm", "qwen3_vl"])
def test_the_loss_of_a_branch_is_that_of_its_context_and_itself_alone(kind: str, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(kind, tmp_path)
    model = checkpoint.model
    per_frame = model.count_tokens(torch.zeros(shape_of(model)))
    sequence = build_sequence(CLIP, checkpoint.trained_prompt, tokens_per_frame=per_frame, rules=ASKED)
    features = torch.stack([torch.randn(shape_of(model), generator=torch.Generator().manual_seed(n)) for n in range(5)])
    images = model.embed_frames(features)
    labels = draw_branches([sequence], negative_rate=1.0, random=torch.Generator().manual_seed(0))
    with torch.no_grad():
        sums = sum_branch_losses(model, [sequence], labels, [features], positive_weight=1.0)
        wanted = {"speak": 0.0, "update": 0.0}
        inputs = model.embed_tokens(torch.tensor(sequence.ids)).clone()
        inputs[torch.tensor(sequence.frames) != IGNORE_INDEX] = images.flatten(0, 1)
        pieces: list[int | torch.Tensor] = [
            token if at == IGNORE_INDEX else features[at // per_frame]
            for token, at in zip(sequence.ids, sequence.frames, strict=True)
            if at == IGNORE_INDEX or at % per_frame == 0
        ]
        place = model.place(pieces, 0)
        for branch in sequence.branches:
            seen = branch.position + 1
            alone = torch.cat([inputs[:seen], model.embed_tokens(torch.tensor(branch.ids))])
            positions = None
            if place is not None:
                behind = model.place(branch.ids, place[1][branch.position])
                assert behind is not None
                positions = torch.cat([place[0][:, :seen], behind[0]], -1)
            hidden = model(alone[None], None, positions)[0, -1:]
            wanted[branch.signal] -= float(model.token_logits(hidden).log_softmax(-1)[0, branch.targets[-1]])
    assert float(sums[1]) == pytest.approx(wanted["speak"], rel=1e-4)
    assert float(sums[2]) == pytest.approx(wanted["update"], rel=1e-4)


def test_a_state_at_each_frame_is_trained_in_the_context_of_the_stream(tmp_path: Path) -> None:
    checkpoint = load_model(write_hub(tmp_path, "qwen2_5_vl"), device="cpu")
    model, prompt = checkpoint.model, checkpoint.trained_prompt
    assert isinstance(model, HubModel)
    config = StreamConfig(decision_policy="state-token", states="silence=</Silence>, response=</Response>")
    config = replace(config, speak_threshold=1.0)
    task = Task(goal="g", steps=STEPS)
    frames = list(random_frames(checkpoint, 5))
    request = StreamRequest(video_id="v", features=frames, task=task, is_traced=True)
    trace = list(Streamer(checkpoint, config).run_many([request]))[-1].trace
    assert trace is not None
    states, per_frame = parse_states(config.states), model.count_tokens(frames[0].features)
    assert per_frame < model.tokens_per_frame
    streamed = list[int]()
    for computed in trace.contexts[-1]:
        piece = computed.item.piece
        streamed += [prompt.image_id] * per_frame if isinstance(piece, Image) else [piece]
    silent = build_sequence(
        replace(CLIP, turns=()), prompt, tokens_per_frame=per_frame, rules=ContextRules(states=states)
    )
    assert silent.ids[: len(streamed)] == streamed
    spoken = build_sequence(
        replace(CLIP, turns=TURNS[1:2]), prompt, tokens_per_frame=per_frame, rules=ContextRules(states=states)
    )
    labels = [(target, label) for target, label in zip(spoken.targets, spoken.speak, strict=True) if target >= 0]
    silence = [(token, 0) for token in prompt.state("</Silence>")] + [(prompt.eos_id, IGNORE_INDEX)]
    response = [(token, 1) for token in prompt.state("</Response>")]
    reply = [(token, IGNORE_INDEX) for token in (*prompt.words("Good."), prompt.eos_id)]
    assert labels == [*silence, *response, *reply, *silence * 3]

"""The teacher-forced pass against feeding every prefix alone, with refreshes and withheld answers."""

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import Step
from stepscope.engine.training.sequences import IGNORE_INDEX, TrainingClip, TrainingTurn, build_sequence
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.videollm_online import LiveTurn
from stepscope.eval.runs.streaming.teacher_forcing import read_live_turns
from tests.support.data.records import make_sample

NUM_FRAMES = 12
SAMPLE = make_sample(
    num_frames=NUM_FRAMES,
    goal="build the toy truck",
    steps=(Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof")),
    turns=(
        Turn(time_s=0.0, role="assistant", text="Go."),
        Turn(time_s=1.5, role="update", text="S1->start"),
        Turn(time_s=2.0, role="user", text="What is next?"),
        Turn(time_s=2.5, role="assistant", text="Good. Now put on the roof."),
        Turn(time_s=3.0, role="update", text="S1->complete"),
        Turn(time_s=4.5, role="assistant", text="Careful."),
    ),
)
RESPONSE_FRAMES = (0, 5, 9)


@pytest.fixture(scope="module")
def frames(checkpoint: Checkpoint) -> list[FrameFeatures]:
    random = torch.Generator().manual_seed(0)
    shape = (checkpoint.model.tokens_per_frame, checkpoint.model.feature_dim)
    return [
        FrameFeatures(index=index, time_s=index / 2, features=torch.randn(shape, generator=random))
        for index in range(NUM_FRAMES)
    ]


def clip(*, without: int | None = None) -> TrainingClip:
    turns = [TrainingTurn(frame_index=int(turn.time_s * 2), role=turn.role, text=turn.text) for turn in SAMPLE.turns]
    kept = [turn for turn in turns if not (turn.role == "assistant" and turn.frame_index == without)]
    return TrainingClip(goal=SAMPLE.goal, steps=SAMPLE.steps, turns=tuple(kept), num_frames=NUM_FRAMES)


@torch.inference_mode()
def speak_probs(
    checkpoint: Checkpoint, frames: list[FrameFeatures], *, without: int | None = None, first: int = 0
) -> list[float]:
    """Return the speaking probability of every frame from ``first`` on, one full pass and no cache."""
    sequence = build_sequence(
        clip(without=without),
        checkpoint.smolvlm_prompt,
        tokens_per_frame=checkpoint.model.tokens_per_frame,
        first_frame=first,
    )
    inputs = checkpoint.model.embed_tokens(torch.tensor(sequence.ids)).clone()
    features = torch.cat([frame.features for frame in frames[first:]])
    inputs[torch.tensor(sequence.frames) != IGNORE_INDEX] = checkpoint.model.embed_frames(features)
    hidden = checkpoint.model(inputs[None])[0][torch.tensor(sequence.speak) != IGNORE_INDEX]
    return checkpoint.model.decision_logits(hidden)[0].sigmoid().tolist()


def test_every_frame_is_read_as_in_one_full_pass(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    turns = read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, frames)
    whole = speak_probs(checkpoint, frames)
    assert [len(turn.silent_prob) for turn in turns] == [1, 5, 4]
    assert [prob for turn in turns for prob in turn.other_prob] == pytest.approx(whole[:10], abs=1e-5)
    assert all(
        silent + other == pytest.approx(1)
        for turn in turns
        for silent, other in zip(turn.silent_prob, turn.other_prob, strict=True)
    )


def test_frames_after_a_response_are_read_without_it(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    turns = read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, frames)
    for turn, frame, until in zip(turns, RESPONSE_FRAMES, (5, 9, 11), strict=True):
        withheld = speak_probs(checkpoint, frames, without=frame)
        assert list(turn.late_other_prob) == pytest.approx(withheld[frame + 1 : until + 1], abs=1e-5)
        assert list(turn.late_other_prob) != pytest.approx(speak_probs(checkpoint, frames)[frame + 1 : until + 1])


def test_tokens_are_those_of_the_reference_with_its_end(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    turns = read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, frames)
    words = [checkpoint.prompt.words(turn.text) for turn in SAMPLE.turns if turn.role == "assistant"]
    assert [len(turn.token_nll) for turn in turns] == [len(ids) + 1 for ids in words]
    assert all(nll > 0 for turn in turns for nll in turn.token_nll)


def test_a_full_context_begins_anew_and_no_frame_is_lost(checkpoint: Checkpoint, frames: list[FrameFeatures]) -> None:
    whole = read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, frames)
    prompt = len(checkpoint.prompt.schema(goal=SAMPLE.goal, steps=SAMPLE.steps, state={"S1": "x", "S2": "x"}))
    config = StreamConfig(max_seq_len=prompt + 90, reserved_seq_len=60, max_new_tokens=20, max_updates_per_frame=1)
    short = read_live_turns(checkpoint, config, SAMPLE, frames)
    assert [len(turn.silent_prob) for turn in short] == [len(turn.silent_prob) for turn in whole]
    assert short != whole
    assert [len(turn.late_other_prob) for turn in short[:2]] == [5, 4]


def test_a_video_shorter_than_its_reference_has_the_turns_that_it_has(
    checkpoint: Checkpoint, frames: list[FrameFeatures]
) -> None:
    turns = read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, frames[:7])
    assert [len(turn.silent_prob) for turn in turns] == [1, 5]
    assert read_live_turns(checkpoint, StreamConfig(fps=2.0), SAMPLE, []) == ()
    assert all(isinstance(turn, LiveTurn) for turn in turns)

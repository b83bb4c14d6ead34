"""Training lays clips out as the stream does, and learns."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.requests import ForwardRequest, ForwardResult, Image
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import feature_info, write_features
from stepscope.engine.records import UserTurn
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.dataset import batches, read_clips
from stepscope.engine.training.objective import Batch, StreamObjective
from stepscope.engine.training.sequences import (
    IGNORE_INDEX,
    ContextRules,
    TrainingClip,
    TrainingTurn,
    build_sequence,
    find_contexts,
)
from stepscope.engine.training.trainer import Trainer
from tests.support.streams.fakes import STEPS, ScriptedRunner, random_frames, tiny_checkpoint

CLIP = TrainingClip(
    goal="g",
    steps=STEPS,
    num_frames=6,
    turns=(
        TrainingTurn(frame_index=0, role="assistant", text="Go."),
        TrainingTurn(frame_index=2, role="update", text="S1->start"),
        TrainingTurn(frame_index=4, role="update", text="S1->complete"),
        TrainingTurn(frame_index=4, role="update", text="S2->start"),
        TrainingTurn(frame_index=4, role="user", text="next?"),
        TrainingTurn(frame_index=4, role="assistant", text="Roof."),
    ),
)


def test_training_and_streaming_contexts_are_the_same_sequence(checkpoint: Checkpoint) -> None:
    prompt = checkpoint.smolvlm_prompt
    turns = {0: ((), "Go."), 2: (("S1->start",), None), 4: (("S1->complete", "S2->start"), "Roof.")}
    runner = ScriptedRunner(turns=turns, num_frames=6, tokens_per_frame=2, codec=prompt)
    task = Task(goal="g", steps=STEPS, user_turns=(UserTurn(time_s=2.0, text="next?"),))
    runner.drive(StreamController(task, config=StreamConfig(), codec=prompt, tokens_per_frame=2).run())
    streamed = [prompt.image_id if isinstance(token, Image) else token for token in runner.context]
    assert build_sequence(CLIP, prompt, tokens_per_frame=2).ids == streamed


class Recorder(ScriptedRunner):
    """Also keeps each context that a refresh replaced."""

    replaced: list[list[int | Image]]

    def forward(self, request: ForwardRequest) -> ForwardResult:
        if request.num_cached == 0 and self.context:
            self.replaced.append(list(self.context))
        return super().forward(request)


def test_a_long_clip_is_split_into_the_contexts_of_a_stream_that_refreshes(checkpoint: Checkpoint) -> None:
    prompt = checkpoint.smolvlm_prompt
    clip = replace(CLIP, turns=tuple(turn for turn in CLIP.turns if turn.role != "user"))
    turns = {0: ((), "Go."), 2: (("S1->start",), None), 4: (("S1->complete", "S2->start"), "Roof.")}
    refresh_at = build_sequence(clip, prompt, tokens_per_frame=2).ends[0] + 4
    contexts = find_contexts(clip, prompt, ContextRules(refresh_at=refresh_at), tokens_per_frame=2)
    runner = Recorder(turns=turns, num_frames=6, tokens_per_frame=2, codec=prompt)
    runner.replaced = []
    config = StreamConfig(lookahead=1, max_seq_len=refresh_at + 300, reserved_seq_len=300)
    runner.drive(StreamController(Task(goal="g", steps=STEPS), config=config, codec=prompt, tokens_per_frame=2).run())
    streamed = [
        [prompt.image_id if isinstance(token, Image) else token for token in context]
        for context in (*runner.replaced, runner.context)
    ]
    assert len(contexts) > 2
    assert [context.ids for context in contexts] == streamed


def test_labels_stand_where_the_stream_reads(checkpoint: Checkpoint) -> None:
    sequence = build_sequence(CLIP, checkpoint.smolvlm_prompt, tokens_per_frame=2)
    last_tokens = [at for at, frame in enumerate(sequence.frames) if frame != IGNORE_INDEX and frame % 2 == 1]
    assert [sequence.speak[at] for at in last_tokens] == [1, 0, 0, 0, 1, 0]
    assert [sequence.update[at] for at in last_tokens] == [0, 0, 1, 0, 1, 0]
    after_eos = [
        sequence.update[at]
        for at, token in enumerate(sequence.ids)
        if token == checkpoint.prompt.eos_id and sequence.update[at] != IGNORE_INDEX
    ]
    assert after_eos == [0, 1, 0]  # S1->start: no more; S1->complete: one more; S2->start: no more
    taught = [target for target in sequence.targets if target != IGNORE_INDEX]
    words = checkpoint.prompt.words
    expected = [
        token
        for text in ("Go.", "S1->start", "S1->complete", "S2->start", "Roof.")
        for token in (*words(text), checkpoint.prompt.eos_id)
    ]
    assert taught == expected


def test_a_clip_from_its_middle_has_the_state_of_that_frame(checkpoint: Checkpoint) -> None:
    sequence = build_sequence(CLIP, checkpoint.smolvlm_prompt, first_frame=3)
    text = checkpoint.prompt.tokenizer.decode(sequence.ids)
    assert "Step S1: in_progress, Step S2: not_started" in text
    assert sequence.ids.count(checkpoint.smolvlm_prompt.image_id) == 3


def data(checkpoint: Checkpoint) -> Iterator[Batch]:
    features = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    return itertools.repeat(([build_sequence(CLIP, checkpoint.smolvlm_prompt)] * 2, torch.cat([features, features])))


def train(checkpoint: Checkpoint, config: TrainConfig) -> list[tuple[float, ...]]:
    """Return the losses of all steps on ``data``."""
    trainer, drawn = Trainer(StreamObjective(checkpoint.smolvlm, config)), data(checkpoint)
    return [tuple(trainer.step(next(drawn)).parts.values()) for _ in range(config.num_steps)]


def test_few_negatives_leave_the_positives(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path)
    model = checkpoint.smolvlm.requires_grad_(requires_grad=True)
    with torch.no_grad():
        model.speaking_decision_head.bias.fill_(20.0)  # right for positives, wrong for every negative
    rate = {1.0: 0.0, 1e-9: 0.0}
    for negative_rate in rate:
        config = TrainConfig(num_steps=1, learning_rate=0.0, negative_rate=negative_rate)
        ((_, rate[negative_rate], _),) = train(checkpoint, config)
    assert rate[1.0] > 5
    assert rate[1e-9] < 0.1


def write_clips(folder: Path, checkpoint: Checkpoint, **changes: object) -> Path:
    write_features(folder / "f.safetensors", random_frames(checkpoint, 6), feature_info(checkpoint, fps=2.0))
    record = {
        "features": "f.safetensors",
        "goal": "g",
        "steps": [{"id": "S1", "name": "attach the wheel"}],
        "turns": [{"frame_index": 2, "role": "update", "text": "S1->start"}],
    }
    (folder / "clips.jsonl").write_text(json.dumps({**record, **changes}) + "\n")
    return folder / "clips.jsonl"


def test_clips_are_read_with_their_features(tmp_path: Path, checkpoint: Checkpoint) -> None:
    path = write_clips(tmp_path, checkpoint)
    path.write_bytes(2 * path.read_text(encoding="utf-8").encode("utf-8-sig"))
    clips = read_clips(path, checkpoint, fps=2.0)
    assert [found.clip.num_frames for found in clips] == [6, 6]
    sequences, features = next(batches(clips, checkpoint, batch_size=4, seed=0, mid_start_rate=0.0))
    assert (len(sequences), features.shape) == (2, (12, 32))


def test_a_file_without_a_clip_that_can_be_used_is_refused_with_the_reason(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    left_out: list[str] = []
    path = write_clips(tmp_path, checkpoint, goal=3)
    with pytest.raises(ValueError, match=r"^no clip can be used; .*clips.jsonl, line 1: goal: .* got 3$"):
        read_clips(path, checkpoint, fps=2.0, on_invalid=left_out.append)
    assert len(left_out) == 1
    path.write_text("")
    with pytest.raises(ValueError, match=r"clips.jsonl holds no clips; write one JSON object per line"):
        read_clips(path, checkpoint, fps=2.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"turns": [{"frame_index": 9, "role": "update", "text": "S1->start"}]}, "outside the 6 frames"),
        ({"turns": [{"frame_index": 1, "role": "boss", "text": "go"}]}, r"line 1: turns\[0\]\.role: input should be"),
        ({"turns": [{"frame_index": 1, "role": "update", "text": "S9->start"}]}, "line 1: the update .* one of S1"),
        (
            {"turns": [{"frame_index": 1, "role": "user", "text": "x", "time": 3}]},
            r"turns\[0\]\.time: unexpected keyword argument; got 3",
        ),
        ({"goal": 3}, "line 1: goal: input should be a valid string; got 3"),
        ({"initial_state": {"S1": "done"}}, "line 1: the initial state S1: done is not one of"),
        ({"features": "other.pt"}, "pickles"),
    ],
)
def test_a_clip_that_cannot_be_used_is_named(
    tmp_path: Path, checkpoint: Checkpoint, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        read_clips(write_clips(tmp_path, checkpoint, **changes), checkpoint, fps=2.0)

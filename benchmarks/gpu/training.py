"""A training step of the 500M shape: all of the text model, the projector and the heads, in bfloat16 over float32."""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.gpu.settings import Figure, Figures, Settings
from stepscope.engine.records import Step
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.dataset import EncodedClip, batches
from stepscope.engine.training.objective import StreamObjective
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn
from stepscope.engine.training.trainer import Trainer, predict

_BATCH_SIZE = 4
_STEPS = tuple(Step(id=f"S{number}", name=f"attach part {number}") for number in range(1, 5))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RandomFrames:
    features: Tensor

    def read(self, first: int = 0, stop: int | None = None) -> Tensor:
        return self.features[first:stop]


def run(settings: Settings) -> Figures:
    """Yield the time and the peak memory of a step."""
    num_frames, num_steps = (40, 4) if settings.is_tiny else (400, 12)
    checkpoint = settings.load("SmolVLM2-500M", dtype="float32")
    model = checkpoint.smolvlm
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "vision_model" not in name
    turns = tuple(
        TrainingTurn(frame_index=frame, role="assistant", text=f"Attach part {frame}, then press it down.")
        for frame in range(5, num_frames, 10)
    )
    clip = TrainingClip(goal="build it", steps=_STEPS, turns=turns, num_frames=num_frames)
    shape = (num_frames, model.tokens_per_frame, model.feature_dim)
    clips = [
        EncodedClip(name=f"clip {seed}", clip=clip, source=_RandomFrames(features=_draw(shape, seed).to(model.device)))
        for seed in range(_BATCH_SIZE)
    ]
    config = TrainConfig(num_steps=num_steps, learning_rate=1e-5)
    trainer = Trainer(StreamObjective(model, config))
    drawn = batches(clips, checkpoint, batch_size=_BATCH_SIZE, seed=0, mid_start_rate=0.0)
    sequences, _ = next(drawn)
    num_tokens = sum(len(sequence.ids) for sequence in sequences)
    found = predict(trainer, drawn, disk_bytes=0)
    note = f"{num_tokens / found.step_s:,.0f} tokens/s, {found.peak_memory_mb:,.0f} MiB"
    name = f"step of {_BATCH_SIZE} contexts, {num_tokens} tokens"
    yield Figure(name=name, value=1000 * found.step_s, unit="ms", note=note)


def _draw(shape: tuple[int, int, int], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))

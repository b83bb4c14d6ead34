"""Predicts the time and memory of a training run from a few steps."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.training.trainer import B, Trainer

NUM_STEPS = 20
_NUM_WARM = 2
"""First steps that are not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Time and memory of a run."""

    num_steps: int
    """Steps that were trained."""
    step_s: float
    """Median seconds per step."""
    total_steps: int
    peak_memory_mb: float
    """MiB: of the GPU if it is used, else of this process."""
    disk_bytes: int
    validation_s: float = 0.0
    """Seconds of all validations together; 0 without validation data."""

    @property
    def training_s(self) -> float:
        """Seconds of all steps together, without validations."""
        return self.step_s * self.total_steps


def predict(trainer: Trainer[B], batches: Iterator[B], *, disk_bytes: int) -> Prediction:
    """Train a few steps and predict the cost of the whole run. The weights change."""
    seconds = []
    for batch in islice(batches, min(NUM_STEPS, trainer.config.num_steps)):
        start_s = time.perf_counter()
        trainer.step(batch)
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        seconds.append(time.perf_counter() - start_s)
    timed = sorted(seconds[_NUM_WARM:] or seconds)
    return Prediction(
        num_steps=len(seconds),
        step_s=timed[len(timed) // 2] if timed else 0.0,
        total_steps=trainer.config.num_steps,
        peak_memory_mb=peak_memory_mb(trainer.device),
        disk_bytes=disk_bytes,
    )

"""CUDA graphs without a GPU: static steps that run eagerly."""

from collections.abc import Callable
from dataclasses import replace

import torch

from stepscope.engine.inference.cuda_graphs import Capture, CudaGraphPool, Step
from stepscope.engine.inference.static import StaticStep
from stepscope.engine.model.checkpoint import Checkpoint


def run_eagerly(step: StaticStep) -> Step:
    """Replace a capture by the step itself, over the same buffers."""
    return step


class CountingBackend:
    """A backend that counts captures and runs."""

    def __init__(self) -> None:
        self.captured, self.runs = list[StaticStep](), 0

    def __call__(self) -> Capture:
        return self.capture

    def capture(self, step: StaticStep) -> Step:
        self.captured.append(step)

        def run() -> torch.Tensor:
            self.runs += 1
            return step()

        return run


def with_graphs(checkpoint: Checkpoint, backend: Callable[[], Capture] = lambda: run_eagerly) -> Checkpoint:
    return replace(checkpoint, graphs=CudaGraphPool(checkpoint.model, backend=backend, min_context=64))

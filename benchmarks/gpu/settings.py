"""Shared by all parts of the benchmark: the settings, the figures that they yield, and the models."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transformers.utils import logging as transformers_logging

from benchmarks.random_model import random_checkpoint
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint

ROOT: Final = Path(__file__).parents[2]
BUNDLED: Final = "bundled"
"""The bundled checkpoint, in place of a published shape with random weights."""


class SkippedError(Exception):
    """A part that cannot run here; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Device and size of the parts."""

    device: str
    is_tiny: bool
    """Run tiny shapes for seconds, to try the benchmark itself."""
    out: Path

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.startswith("cuda")

    def need_gpu(self) -> None:
        """Raise ``SkippedError`` without a GPU."""
        if not self.is_gpu:
            raise SkippedError(f"needs a GPU, and the device is {self.device}")

    def load(self, shape: str, *, dtype: str = "auto") -> Checkpoint:
        """Return a random model of a shape, or the bundled checkpoint."""
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        bundled = load_model(ROOT / "assets" / "checkpoint", device=self.device, dtype=dtype)
        if shape == BUNDLED:
            return bundled
        if self.is_tiny:
            shape = "tiny-10" if shape.endswith("-10") else "tiny-VL" if "VL" in shape.split("-") else "tiny"
        return random_checkpoint(shape, bundled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One result of a part."""

    name: str
    value: float | str
    unit: str = ""
    goal: str = ""
    note: str = ""


Figures = Iterator[Figure]

"""The options of the command ``plan``."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from engine.cli.options import CheckpointOptions
from eval.planning.constants import CONSTANTS


@dataclass(frozen=True, kw_only=True)
class PlanOptions(CheckpointOptions):
    """Predict time, memory and storage of a run over a split, from measured constants, without a model."""

    split: Positional[Path]
    """Manifest of the split."""
    arch: str = "bundled"
    """The bundled checkpoint; a shape of bench --arch: SmolVLM2-256M, SmolVLM2-500M, SmolVLM2-2.2B, Llama-3-8B-10, tiny
    or tiny-10; or any name that was measured with --checkpoint."""
    devices: int = 1
    """Devices, each with one worker: GPUs, or cores of a CPU."""
    batch_size: int | None = None
    """Videos per forward pass of a worker (default: at most 16 on a CPU and 32 on a GPU)."""
    hours: float | None = None
    """Predict this many hours of video like those of the split."""
    features: bool = False
    """Add the storage of kept features."""
    hardware: str = ""
    """Part of the name of the measured hardware (default: the first that has the architecture)."""
    constants: Path = CONSTANTS
    """File of measured constants, to read, or with --measure to write."""
    run: Path | None = None
    """Compare the prediction with this finished run folder."""
    measure: bool = False
    """First measure the constants of this machine with --checkpoint, or a random model of --arch, on every second video
    of the split, and predict the others."""
    against: Path | None = None
    """With --measure: measure all videos of the split, and predict those of this other split."""
    device: str = "auto"
    """With --measure: auto, cpu, cuda or mps."""
    json: bool = False
    """Print JSON instead of a table."""

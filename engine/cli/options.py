"""The options of the engine's commands."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction

from engine.cli.program import Options
from engine.config import GraphSetting, StreamConfig

ASSETS: Final = Path(__file__).parents[2] / "assets"
BUNDLED: Final = ASSETS / "checkpoint"


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """The checkpoint."""

    checkpoint: str = str(BUNDLED)
    """Checkpoint folder or hub id."""
    heads: Path | None = None
    """Heads file that replaces the checkpoint's own."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(CheckpointOptions):
    """The checkpoint and its device."""

    allow_untrained_heads: bool = False
    """Use random heads if there is no heads file."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions(DeviceOptions):
    """The checkpoint, its device and its numbers."""

    dtype: str = "auto"
    """auto, float32, float16 or bfloat16."""
    graphs: GraphSetting = "auto"
    """Whether to use CUDA graphs; the results are the same."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions):
    """Stream one video and write a FrameOutput per line."""

    video: Positional[Path]
    """The video file."""
    out: Path
    """JSON lines file to write, one FrameOutput per line."""
    goal: str = ""
    """Goal of the task."""
    steps: Path | None = None
    """Text file with one step per line, such as 'S1: attach the wheel'."""
    user: UseAppendAction[tuple[str, ...]] = ()
    """A user turn, as 'TIME: WORDS'; TIME in seconds, as m:ss or as h:mm:ss."""
    features: Path | None = None
    """Feature file of the video, to skip encoding."""
    config: Path | None = None
    """YAML or JSON file of stream settings; options override it."""
    stream: OmitArgPrefixes[StreamConfig] = field(default_factory=StreamConfig)
    """Settings of the stream."""


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(ModelOptions):
    """Encode one video and write its frame features."""

    video: Positional[Path]
    """The video file."""
    out: Path
    """The .safetensors file to write."""
    fps: float = 2.0
    """Frames sampled per second of video."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ModelOptions):
    """Train the heads and the text model on annotated clips, and write a checkpoint to a new folder."""

    clips: Positional[Path]
    """JSON lines of clips; see engine/training/dataset.py."""
    out: Path
    """Folder of the new checkpoint, new or empty."""
    fps: float = 2.0
    """Frame rate of the features."""
    num_steps: int = 1000
    """Optimiser steps."""
    batch_size: int = 8
    """Clips in one step."""
    learning_rate: float = 1e-4
    """Peak learning rate."""
    negative_rate: float = 1.0
    """Fraction of the silent frames that the loss counts, in (0, 1]."""
    seed: int = 0
    """Seed of order and sub-sampling."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions(ModelOptions):
    """Print the speed of each streaming mode on a split, or on a random model of a published shape; JSON last."""

    split: Positional[Path] = ASSETS / "demo" / "test.json"
    """Manifest of the split."""
    batch_size: int = 16
    """Videos per pass."""
    repeats: int = 3
    """Rounds; the best is reported."""
    threads: int | None = None
    """Number of CPU threads (default: torch's)."""
    arch: str | None = None
    """Use a random model of this shape and random videos: SmolVLM2-2.2B or tiny."""
    frames: int = 1000
    """Frames per video for --arch."""
    videos: int = 1
    """Number of videos for --arch."""

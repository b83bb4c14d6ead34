"""The options of the engine's commands."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction

from stepscope.engine.cli.program import Options
from stepscope.engine.config import GraphSetting, HardwareDecoding, Quantization, StreamConfig
from stepscope.engine.model.files.bundled import ASSETS, BUNDLED_CHECKPOINTS

BUNDLED: Final = BUNDLED_CHECKPOINTS["bundled"]
BUNDLED_RUN: Final = ASSETS / "demo" / "run"


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    """The checkpoint."""

    checkpoint: str = str(BUNDLED)
    """Checkpoint folder, hub id, or bundled, bundled-silent-token or bundled-answer."""
    heads: Path | None = None
    """Heads file that replaces the checkpoint's own."""


@dataclass(frozen=True, kw_only=True)
class LoadingOptions(CheckpointOptions):
    """The checkpoint, the numbers of its weights and the size of its frames."""

    quantize: Quantization = "none"
    """Load the text model of a Llama assistant or of an image-text model in 8 or 4 bits; needs bitsandbytes."""
    frame_pixels: int | None = None
    """Most pixels of a frame for Qwen2-VL, Qwen2.5-VL and Qwen3-VL (default: 50176); the aspect is kept."""
    dtype: str = "auto"
    """auto, float32, float16 or bfloat16; auto is bfloat16 on a GPU, and on a CPU if the weights are stored in it."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(CheckpointOptions):
    """The checkpoint and its device."""

    allow_untrained_heads: bool = False
    """Use random heads if there is no heads file."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions(DeviceOptions, LoadingOptions):
    """The checkpoint, its device and its CUDA graphs."""

    graphs: GraphSetting = "auto"
    """Whether to use CUDA graphs; the results are the same."""


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(Options):
    """How videos are decoded."""

    hardware_decoding: HardwareDecoding = "off"
    """Decode videos with NVDEC, on the GPU of the model or else the first one (cuda); pixels may differ. A video that
    it does not decode is decoded in software, with a warning."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions(ModelOptions):
    """The checkpoint, the task of one stream and its settings."""

    goal: str = ""
    """Goal of the task."""
    steps: Path | None = None
    """Text file with one step per line, such as 'S1: attach the wheel'."""
    preset: str = ""
    """Settings of a published assistant by name, or of a file of your own; stepscope presets lists them. --config and
    other options win."""
    config: Path | None = None
    """YAML or JSON file of stream settings; options override it."""
    stream: OmitArgPrefixes[StreamConfig] = field(default_factory=StreamConfig)
    """Settings of the stream."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(DecodingOptions, TaskOptions):
    """Stream one video and write a FrameOutput per line."""

    video: Positional[Path]
    """The video file."""
    out: Path
    """JSON lines file to write, one FrameOutput per line."""
    user: UseAppendAction[tuple[str, ...]] = ()
    """A user turn, as 'TIME: WORDS'; TIME in seconds, as m:ss or as h:mm:ss."""
    ask: UseAppendAction[tuple[str, ...]] = ()
    """A question, written like a user turn; the assistant answers it at this frame, also below the speak threshold."""
    features: Path | None = None
    """Feature file of the video, to skip encoding."""
    branch: Path | None = None
    """YAML file of changes: states, messages written or deleted, questions, pictures frozen or swapped, prompt,
    thresholds; see docs/what-if.md. The run is made without and with them; the latter is written."""


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(DecodingOptions, ModelOptions):
    """Encode one video and write its frame features."""

    video: Positional[Path]
    """The video file."""
    out: Path
    """The .safetensors file to write."""
    fps: float = 2.0
    """Frames sampled per second of video."""

"""Settings that a worker receives and events that it sends: records that are pickled between processes.

No library of the model is imported, so that a process which only leads workers starts early.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stepscope.engine.config import HardwareDecoding, Quantization, StreamConfig
from stepscope.engine.records import FrameOutput
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.progress import WorkerUsage

REPORT_INTERVAL_S: Final = 0.25
"""Time between two progress reports."""
USAGE_INTERVAL_S: Final = 0.5
"""Time between two measurements of tokens and memory."""
HEAD_START_FRAMES: Final = 128
"""Frames that the first video streams before others share its passes: it is finished early, or has an error early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Checkpoint and settings, equal for every video."""

    checkpoint: str
    """Folder or hub id."""
    heads: Path | None = None
    """Heads file that replaces the checkpoint's own."""
    quantize: Quantization = "none"
    """Bits of the weights of the text model; see ``load_model``."""
    frame_pixels: int | None = None
    """Most pixels of a frame; see ``load_model``."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """Settings of the stream; the frame rate is each video's own."""
    live: bool = False
    """Whether to count VideoLLM-online's scores in a second, teacher-forced pass."""
    features: Path | None = None
    """Folder in which embeddings are kept; None keeps none."""
    hardware_decoding: HardwareDecoding = "off"
    """Kind of device that decodes; see ``engine.video.hardware``."""
    batch_size: int | None = None
    """Videos per forward pass of a worker; None chooses it from the free memory."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a batch size below 1."""
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FramesDone:
    """A report of the frames of a video that are done."""

    video_id: str
    num_done: int
    usage: WorkerUsage | None = None
    """A measurement of the worker, at most each ``USAGE_INTERVAL_S``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoResult:
    """The result of a video, finished or failed."""

    record: VideoRecord
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame; empty if the video failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """The hardware of one worker."""

    device: str
    num_threads: int | None = None
    """Torch threads; None keeps torch's default."""
    num_sharing: int = 1
    """Workers that share the memory of the device, this one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady:
    """A worker has loaded the checkpoint."""

    host: str = ""
    """Name of its machine; empty for this one."""
    num_videos: int = 1
    """Videos that it runs at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """An exception in a worker, which ends."""

    reason: str
    is_final: bool
    """Whether every other worker would fail in the same way, so that the run ends."""

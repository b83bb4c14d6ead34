"""Settings that a worker receives, events that it sends, and the progress of a batch: records that are pickled.

No library of the model is imported, so that a process which only leads workers starts early.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final

from stepscope.engine.config import HardwareDecoding, Quantization, StreamConfig
from stepscope.engine.records import FrameOutput
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.output_folder import Outcome

REPORT_INTERVAL_S: Final = 0.25
"""Time between two progress reports."""
USAGE_INTERVAL_S: Final = 0.5
"""Time between two measurements of tokens and memory."""
CHANGED_SETTINGS: Final = ("quantize", "hardware_decoding")
"""Fields of ``WorkerConfig`` that ``run.json`` has only where they are not the default."""
HEAD_START_FRAMES: Final = 128
"""Frames that the first video streams before others share its passes: it is finished early, or has an error early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStatus:
    """Progress of one video in flight."""

    video_id: str
    num_frames: int
    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerUsage:
    """The speed and memory of a worker at one moment, measured at most twice a second."""

    tokens_per_s: float
    """Tokens fed to the model since the measurement before, also those that were cropped later."""
    cache_tokens: int
    cache_mb: float
    """Memory of these tokens in MiB."""
    memory_mb: float
    """Memory of its process in MiB: what torch has reserved on a GPU, else the resident set."""
    device_mb: float | None = None
    """Memory of its whole GPU in MiB; None on other devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Status of one worker."""

    name: str
    """Its device, with a number where one device has several, such as ``cpu 2``."""
    pid: int | None = None
    """Its process; None if that runs on a different machine."""
    videos: tuple[VideoStatus, ...] = ()
    """The videos that it runs; none while it loads the checkpoint or is idle."""
    total_done: int = 0
    usage: WorkerUsage | None = None
    """Its last measurement; None while it runs no video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a batch at one moment. Frames are counted only of videos that this batch runs, not of kept ones."""

    num_videos: int
    """Valid videos of the split."""
    num_finished: int
    """Videos with a record: kept, finished or failed."""
    num_frames: int
    num_done: int
    elapsed_s: float
    """Seconds since the first frame was done; 0 before it, so that loading does not lower the rate."""
    workers: tuple[WorkerStatus, ...]
    paced_s: float | None = None
    """``elapsed_s`` at the last growth of ``num_done``; None where it grows now."""

    @property
    def frames_per_s(self) -> float:
        """Frames per second so far; 0 before the first."""
        return self.num_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of all workers at the last measurement."""
        return sum(worker.usage.tokens_per_s for worker in self.workers if worker.usage)

    @property
    def num_waiting(self) -> int:
        """Videos that no worker has begun."""
        return self.num_videos - self.num_finished - sum(len(worker.videos) for worker in self.workers)

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end, from finished frames; None before a rate is known.

        Frames of shared passes end in bursts. Between two, the estimate of the last one runs down.
        """
        paced_s = self.elapsed_s if self.paced_s is None else self.paced_s
        if not self.num_done or not paced_s:
            return None
        left_s = (self.num_frames - self.num_done) * paced_s / self.num_done
        return max(0.0, left_s - (self.elapsed_s - paced_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Checkpoint and settings, equal for every video."""

    checkpoint: str
    heads: Path | None = None
    """Heads file that replaces the checkpoint's own."""
    quantize: Quantization = "none"
    frame_pixels: int | None = None
    dtype: str = "auto"
    config: StreamConfig = field(default_factory=StreamConfig)
    """Settings of the stream; the frame rate is each video's own."""
    live: bool = False
    """Whether to count VideoLLM-online's scores in a second, teacher-forced pass."""
    features: Path | None = None
    """Folder in which embeddings are kept; None keeps none."""
    hardware_decoding: HardwareDecoding = "off"
    worker_module: ClassVar[str] = "stepscope.eval.runs.pools.worker"
    """Module whose class ``Worker`` runs the videos; its process alone imports it."""
    batch_size: int | None = None
    """Videos per forward pass of a worker; None chooses it from the free memory."""

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}")

    def changed_settings(self) -> dict[str, Any]:
        """Return those of ``CHANGED_SETTINGS`` that are not the default."""
        named = {field.name: field.default for field in fields(self) if field.name in CHANGED_SETTINGS}
        return {name: value for name, default in named.items() if (value := getattr(self, name)) != default}


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
    diagnosis: Outcome | None = None
    """The diagnosis of the video, from a worker that diagnoses."""


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

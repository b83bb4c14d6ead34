"""Progress of a batch, per worker and in total, with rate and remaining time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStatus:
    """Progress of one video in flight."""

    video_id: str
    num_frames: int
    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerUsage:
    """What a worker costs at one moment, measured at most twice a second."""

    tokens_per_s: float
    """Tokens fed to the model since the measurement before, also those that were cropped later."""
    cache_tokens: int
    """Tokens in the KV caches of its videos."""
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
    """Frames of all videos that are done."""
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
    """One per live worker."""

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
        """Estimated seconds to the end at this rate; None before the first frame."""
        rate = self.frames_per_s
        return (self.num_frames - self.num_done) / rate if rate else None

"""Progress of a batch, per worker and in total, with rate and remaining time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoStatus:
    """Progress of one video in flight."""

    video_id: str
    num_frames: int
    num_done: int


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
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end at this rate; None before the first frame."""
        rate = self.frames_per_s
        return (self.num_frames - self.num_done) / rate if rate else None

"""How far a batch is, per station and in all, with rate and remaining time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """One process that runs videos."""

    name: str
    """Its device, with a number where one device has several, such as ``cpu 2``."""
    pid: int | None = None
    """Its process; None where that is not on this machine."""
    video_id: str | None = None
    """The video at hand; None while it loads the checkpoint or waits."""
    num_frames: int = 0
    """Frames of that video."""
    num_done: int = 0
    """Frames of it that are done."""
    total_done: int = 0
    """Frames done since it began, of all videos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a batch; frames are those of the videos that this batch runs, kept videos have none."""

    num_videos: int
    """Videos of the split that can be read."""
    num_finished: int
    """Videos with a record: kept, finished or failed."""
    num_frames: int
    """Frames to run."""
    num_done: int
    """Frames that are done."""
    elapsed_s: float
    """Seconds since the first frame was done; 0 before, so that no rate counts the loading of checkpoints."""
    workers: tuple[WorkerStatus, ...]
    """What each is at."""

    @property
    def frames_per_s(self) -> float:
        """Frames per second so far; 0 before the first."""
        return self.num_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds to the end at this rate; None before the first frame."""
        rate = self.frames_per_s
        return (self.num_frames - self.num_done) / rate if rate else None

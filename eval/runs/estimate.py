"""The cost of a run over a split, extrapolated from a part of it that was run on the same devices."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stepscope.eval.data.samples import Split
from stepscope.eval.runs.batch import FinishedVideo, run_batch
from stepscope.eval.runs.folder import VideoRecord
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The measured part of a run, and what it gives for the whole split."""

    num_videos: int
    num_frames: int
    num_finished: int
    """Videos that were finished in the measured time."""
    num_done: int
    """Frames that were done in the measured time, also of videos that were not finished."""
    start_s: float
    """Seconds until the first frame was done."""
    elapsed_s: float
    """Measured seconds after that."""
    num_workers: int
    peak_memory_mb: float | None
    """Largest memory of a worker; None if no video was finished."""
    bytes_per_frame: float | None
    """Size of the files of finished videos, divided by their frames; None if no video was finished."""

    @property
    def frames_per_s(self) -> float:
        """Frames per second of all workers together."""
        return self.num_done / self.elapsed_s

    @property
    def wall_s(self) -> float:
        """Seconds from the start of the command until all videos are finished; tables not included."""
        return self.start_s + self.num_frames / self.frames_per_s

    @property
    def run_bytes(self) -> float | None:
        """Size of the run folder without its tables."""
        return None if self.bytes_per_frame is None else self.bytes_per_frame * self.num_frames


def estimate_run(split: Split, worker_config: WorkerConfig, *, devices: str, seconds: float) -> Estimate:
    """Run a split for some seconds after its first frame, and return the estimate; no run folder remains.

    A split that ends earlier is measured whole. Raises as ``run_batch``, and ``ValueError`` if all videos fail.
    """
    started_s = time.perf_counter()
    last: Progress | None = None
    start_s, num_workers, records = 0.0, 0, list[VideoRecord]()
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        with closing(run_batch(split, worker_config, out=out, devices=devices)) as events:
            for event in events:
                if isinstance(event, FinishedVideo):
                    records.append(event.record)
                    continue
                if event.num_done and not start_s:
                    start_s = time.perf_counter() - started_s
                last, num_workers = event, max(num_workers, len(event.workers))
                if event.elapsed_s >= seconds:
                    break
        num_bytes = sum(path.stat().st_size for path in out.glob("*") if path.is_file())
    finished = [record for record in records if not record.error]
    failed = {record.video_id: record.error for record in records if record.error}
    failed_frames = sum(sample.num_frames for sample in split.samples if sample.video_id in failed)
    if last is None or not last.elapsed_s or last.num_done <= failed_frames:
        raise ValueError(f"nothing could be measured: {next(iter(failed.values()), 'no frame was done')}")
    num_frames = sum(record.num_frames for record in finished)
    return Estimate(
        num_videos=len(split.samples),
        num_frames=sum(sample.num_frames for sample in split.samples),
        num_finished=len(finished),
        num_done=last.num_done - failed_frames,
        start_s=start_s,
        elapsed_s=last.elapsed_s,
        num_workers=num_workers,
        peak_memory_mb=max((record.peak_memory_mb or 0.0 for record in finished), default=0.0) or None,
        bytes_per_frame=num_bytes / num_frames if num_frames else None,
    )

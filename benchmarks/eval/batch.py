"""Time per video and memory of a large batch, and the speed-up of a second worker process.

``python -m benchmarks.eval.batch [VIDEOS]`` lists one video of 4 frames VIDEOS times (default 1,000) and runs the
bundled checkpoint over them: up to 128 videos with one and with two workers, then all with two, through the page's job
queue.
For each fifth of these it prints the time per video and the peak memory of the parent and of a worker, so far.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from stepscope.app.core.job_queue import Job, JobQueue
from stepscope.engine.video.writer import write_h264
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.batch import run_batch
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.worker_messages import Progress, WorkerConfig

BUNDLED = Path(__file__).parents[2] / "assets" / "checkpoint"
NUM_TIMED = 128


def main(num_videos: int) -> None:
    """Measure and print the figures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        split = _write_split(folder, num_videos)
        seconds = {devices: _time(folder, split, devices) for devices in ("cpu:1", "cpu:2")}
        num_timed = min(NUM_TIMED, num_videos)
        print(f"{num_timed} videos: {seconds['cpu:1']:.1f} s with one process, {seconds['cpu:2']:.1f} s with two")
        print(f"speed-up {seconds['cpu:1'] / seconds['cpu:2']:.2f} on {os.cpu_count()} cores")
        scoring = ScoreSettings(text_encoder=DEFAULT_ENCODER)
        jobs = JobQueue(encode=load_encoder().encode, scoring=scoring)
        work = WorkerConfig(checkpoint=str(BUNDLED))
        job = Job(folder=folder / "all", split=read_split(split), work=work, devices="cpu:2", scoring=scoring)
        jobs.submit(job)
        began, seen, times_s = time.perf_counter(), 0, [time.perf_counter()]
        while not job.is_over:
            time.sleep(0.02)
            if (finished := list(job.rows))[seen + num_videos // 5 - 1 :] and job.state == "running":
                times_s.append(time.perf_counter())
                each_ms = 1000 * (times_s[-1] - times_s[-2]) / (len(finished) - seen)
                seen = len(finished)
                print(
                    f"{seen} videos: {each_ms:.1f} ms per video since the line above, {_memory_mb():.0f} MB in this "
                    f"process, {_worker_mb(job.folder, finished[-1]):.0f} MB in a worker"
                )
        wall_s = time.perf_counter() - began
        print(f"{job.state}: {len(job.rows)} videos, {wall_s:.0f} s with the scores, {_memory_mb():.0f} MB at most")


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def _worker_mb(folder: Path, video_id: str) -> float:
    record = RunFolder(folder).record(video_id)
    assert record is not None
    return record.peak_memory_mb or 0.0


def _write_split(folder: Path, num_videos: int) -> Path:
    shades = np.linspace(40, 200, 20).astype(np.uint8)
    write_h264(folder / "video.mp4", (np.full((90, 120, 3), shade, np.uint8) for shade in shades), fps=10)
    turns = [
        {"time_s": 1.0, "role": "update", "text": "S1->start"},
        {"time_s": 1.5, "role": "assistant", "text": "Good."},
    ]
    record = {"video_path": "video.mp4", "fps": 2.0, "num_frames": 4, "goal": "build the boat", "turns": turns}
    steps = [{"id": "S1", "name": "set down the hull"}, {"id": "S2", "name": "hang the sail"}]
    videos = [{**record, "video_id": f"video {number}", "steps": steps} for number in range(num_videos)]
    (folder / "split.json").write_text(json.dumps({"videos": videos}), encoding="utf-8")
    few = {"videos": videos[:NUM_TIMED]}
    (folder / "few.json").write_text(json.dumps(few), encoding="utf-8")
    return folder / "split.json"


def _time(folder: Path, split: Path, devices: str) -> float:
    """Return the seconds from the first frame to the end, without the start of the workers."""
    work = WorkerConfig(checkpoint=str(BUNDLED))
    began = None
    for event in run_batch(read_split(split.with_name("few.json")), work, out=folder / devices, devices=devices):
        if began is None and isinstance(event, Progress) and event.num_done:
            began = time.perf_counter()
    assert began is not None
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

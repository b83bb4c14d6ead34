"""Cost of a sweep over the bundled split, in model passes: ``python -m benchmarks.sweep``.

Each video runs at 21 speaking thresholds: once with ``engine.replay.Recording``, which reuses the run before, and once
with a new run for each threshold.
"""

import sys
import time
from pathlib import Path

import torch

from engine.bench.modes import read_videos
from engine.config import StreamConfig
from engine.control.requests import PassCounts
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.replay import Recording
from engine.streamer import Streamer, StreamRequest

ASSETS = Path(__file__).parent.parent / "assets"
SPEAK_THRESHOLDS = tuple(round(0.05 + 0.045 * number, 3) for number in range(21))
UPDATE_THRESHOLD = 0.5


def main() -> None:
    """Sweep video by video, and print running totals."""
    torch.set_num_threads(1)
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    swept, separate, seconds, separate_s = PassCounts(), PassCounts(), 0.0, 0.0
    for video in read_videos(ASSETS / "demo" / "test.json", checkpoint):
        began = time.perf_counter()
        swept += sweep(checkpoint, video)
        seconds += time.perf_counter() - began
        began = time.perf_counter()
        for speak in SPEAK_THRESHOLDS:
            config = StreamConfig(speak_threshold=speak, update_threshold=UPDATE_THRESHOLD)
            streamer = Streamer(checkpoint, config)
            list(streamer.run(video.features, video.task))
            separate += streamer.counts
        separate_s += time.perf_counter() - began
        sys.stdout.write(
            f"{video.video_id}: {swept.passes} passes in {seconds:.1f} s, 21 runs each {separate.passes} in "
            f"{separate_s:.1f} s, share {swept.passes / separate.passes:.3f}\n"
        )
        sys.stdout.flush()


def sweep(checkpoint: Checkpoint, video: StreamRequest) -> PassCounts:
    """Run a video at all thresholds, each from the run before; return the cost."""
    config = StreamConfig(speak_threshold=SPEAK_THRESHOLDS[0], update_threshold=UPDATE_THRESHOLD)
    recording = Recording(checkpoint, list(video.features), task=video.task, config=config)
    list(recording.run())
    counts = recording.counts
    for speak in SPEAK_THRESHOLDS[1:]:
        recording = recording.at(speak_threshold=speak, update_threshold=UPDATE_THRESHOLD)
        list(recording.run())
        counts += recording.counts
    return counts


if __name__ == "__main__":
    main()

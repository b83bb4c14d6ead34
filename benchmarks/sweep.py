"""Cost of a sweep over the bundled split, in model passes: ``python -m benchmarks.sweep``.

Each video is run at 21 speaking thresholds, once with ``engine.replay.sweep`` and once with one run per threshold.
"""

import sys
import time
from pathlib import Path

import torch

from engine.bench.modes import read_videos
from engine.config import StreamConfig
from engine.control.requests import PassCounts
from engine.loading import load_model
from engine.replay import Thresholds, sweep
from engine.streamer import Streamer

ASSETS = Path(__file__).parent.parent / "assets"
POINTS = tuple(Thresholds(speak=round(0.05 + 0.045 * number, 3), update=0.5) for number in range(21))


def main() -> None:
    """Sweep video by video, and print running totals."""
    torch.set_num_threads(1)
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    swept, separate, seconds, separate_s = PassCounts(), PassCounts(), 0.0, 0.0
    for video in read_videos(ASSETS / "demo" / "test.json", checkpoint):
        began = time.perf_counter()
        points = list(sweep(checkpoint, list(video.frames), POINTS, task=video.task))
        seconds += time.perf_counter() - began
        swept = sum((point.counts for point in points), swept)
        began = time.perf_counter()
        for point in points:
            config = StreamConfig(speak_threshold=point.thresholds.speak, update_threshold=point.thresholds.update)
            streamer = Streamer(checkpoint, config)
            list(streamer.run(video.frames, video.task))
            separate += streamer.counts
        separate_s += time.perf_counter() - began
        sys.stdout.write(
            f"{video.video_id}: {swept.passes} passes in {seconds:.1f} s, 21 runs each {separate.passes} in "
            f"{separate_s:.1f} s, share {swept.passes / separate.passes:.3f}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()

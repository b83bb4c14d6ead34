"""Frames per second of the recorder: the time that it adds to the loop of a model, for frames with eight signals.

It writes 20 videos of 1,800 frames, a text at every tenth frame, and prints the share of the time that goes into files.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.eval.recorder import RunRecorder

NUM_VIDEOS, NUM_FRAMES, NUM_SIGNALS = 20, 1800, 8


def main() -> None:
    """Record and print the rate."""
    names = [f"signal {number}" for number in range(NUM_SIGNALS)]
    values = dict.fromkeys(names, 0.123456789)
    with TemporaryDirectory() as folder:
        started_s = time.perf_counter()
        with RunRecorder(folder, model="m", signals=[SignalSpec(name=name) for name in names]) as run:
            for number in range(NUM_VIDEOS):
                with run.video(f"video {number}", fps=2) as video:
                    for index in range(NUM_FRAMES):
                        said = None if index % 10 else "Set down the hull, then hang the sail."
                        video.frame(
                            index / 2, signals=values, response=said, state="silent", latency_ms=9.0, cache_tokens=index
                        )
        wall_s = time.perf_counter() - started_s
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    num_frames = NUM_VIDEOS * NUM_FRAMES
    cost = f"{1e6 * wall_s / num_frames:.0f} us and {size / num_frames:.0f} B a frame"
    print(f"{num_frames / wall_s:,.0f} frames/s, {cost}")


if __name__ == "__main__":
    main()

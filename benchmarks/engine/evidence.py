"""Cost of the evidence for one decision: ``python -m benchmarks.engine.evidence``.

The decision is that of the bundled video ``boat`` at 29.5 s, with 60 frames in its context. Each row is the least of
some runs, in milliseconds, and as a multiple of streaming the 60 frames once. The random model is made once.
"""

import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.evidence.explain import explain_decision
from stepscope.engine.evidence.scoring import randomize
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import read_frames
from stepscope.eval.cli.bench import read_videos

ASSETS = Path(__file__).parents[2] / "assets"
FRAME = 59
NUM_RUNS = 2


def main() -> None:
    """Print a row for each part of the evidence."""
    torch.set_num_threads(2)
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    (video,) = read_videos(ASSETS / "demo" / "test.json", checkpoint, only={"boat"})
    features = list(islice(video.features, FRAME + 1))
    source = read_frames(ASSETS / "demo" / "boat.mp4", fps=StreamConfig().fps)
    pictures = {frame.index: frame.image for frame in islice(source, FRAME + 1)}
    random_model = randomize(checkpoint.model)

    def record(known: Sequence[FrameOutput] = ()) -> Recording:
        recording = Recording(checkpoint, features, task=video.task, known=known)
        list(recording.run())
        return recording

    recording = record()

    def explain(*, with_texts: bool = False, patches_frame: int | None = None) -> None:
        explain_decision(
            recording,
            FRAME,
            target="update",
            pictures=pictures,
            with_texts=with_texts,
            patches_frame=patches_frame,
            random_model=random_model,
        )

    base = _measure(record)
    print(f"{'stream 60 frames':<20} {base:7.0f} ms   1.0")
    runs: dict[str, Callable[[], object]] = {
        "stream them again": lambda: record(recording.outputs),
        "frames": explain,
        "frames and patches": lambda: explain(patches_frame=FRAME),
        "frames and texts": lambda: explain(with_texts=True),
        "random weights": lambda: randomize(checkpoint.model),
    }
    for name, run in runs.items():
        value = _measure(run)
        print(f"{name:<20} {value:7.0f} ms {value / base:5.1f}", flush=True)


def _measure(run: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest run."""
    times = []
    for _ in range(NUM_RUNS):
        start = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


if __name__ == "__main__":
    main()

"""Cost of ``stepscope sweep``: ``python -m benchmarks.eval.sweep [NUM_THRESHOLDS]``, by default 21 speaking thresholds.

The bundled test split is swept as the command does, one video at a time and with 16 in a forward pass, and compared
with a new run of every video for each threshold. Frames are encoded before, as with ``--features``. The sweeps also
count and write their results, without a sentence encoder. CPU seconds count all threads.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.engine.decode import measure
from stepscope.engine.bench.modes import read_videos
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.streamer import Streamer
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import DEFAULT_ENCODER
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.worker_messages import WorkerConfig
from stepscope.eval.sweeps.exact import run_sweep
from stepscope.eval.sweeps.grid import Grid
from tests.support.streams.fakes import count_letters

ASSETS = Path(__file__).parents[2] / "assets"
SPLIT = ASSETS / "demo" / "test.json"
BATCH_SIZES = (1, 16)
UPDATE_THRESHOLD = 0.5


def main(num_thresholds: int) -> None:
    """Print a row for each way to run the grid, and whether both sweeps give the same scores."""
    torch.set_num_threads(1)
    thresholds = tuple(round(0.05 + 0.9 * number / max(1, num_thresholds - 1), 3) for number in range(num_thresholds))
    rows = dict[str, Callable[[], int]]()
    with TemporaryDirectory() as name:
        folder = Path(name)
        sweep(folder / "first", thresholds[:1], batch_size=BATCH_SIZES[-1], features=folder)  # encodes, and warms up
        for size in BATCH_SIZES:
            rows[f"{num_thresholds} runs each, {size} at once"] = make_separate(thresholds, batch_size=size)
        for size in BATCH_SIZES:
            rows[f"sweep, {size} at once"] = partial(
                sweep, folder / f"{size}", thresholds, batch_size=size, features=folder
            )
        first_s = 0.0
        for title, run in rows.items():
            num_passes, (wall_s, cpu_s) = measure(run)
            first_s = first_s or cpu_s
            ratio = f"{cpu_s / first_s:6.2f} of the first"
            print(f"{title:28} {num_passes:7,} passes {wall_s:7.1f} s wall {cpu_s:7.1f} s CPU {ratio}", flush=True)
        one, many = ((folder / f"{size}" / "sweep.csv").read_text() for size in BATCH_SIZES)
        print("equal scores at each point" if one == many else "THE SCORES DIFFER")


def sweep(out: Path, thresholds: tuple[float, ...], *, batch_size: int, features: Path) -> int:
    """Run the sweep of the command; return its model passes."""
    updates = run_sweep(
        read_split(SPLIT),
        WorkerConfig(checkpoint=str(ASSETS / "checkpoint"), batch_size=batch_size, features=features / "features"),
        Grid(speak=thresholds, update=(UPDATE_THRESHOLD,)),
        out=out,
        scoring=ScoreSettings(text_encoder=DEFAULT_ENCODER),
        encode=count_letters,
        device="cpu:1",
    )
    *_, last = updates
    return last.passes


def make_separate(thresholds: tuple[float, ...], *, batch_size: int) -> Callable[[], int]:
    """Encode the videos; return a function that runs them at each threshold and returns the model passes."""
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    videos = read_videos(SPLIT, checkpoint)

    def run() -> int:
        num_passes = 0
        for speak in thresholds:
            config = StreamConfig(speak_threshold=speak, update_threshold=UPDATE_THRESHOLD)
            streamer = Streamer(checkpoint, config)
            for event in streamer.run_many(videos, max_batch_size=batch_size):
                assert event.error is None
            num_passes += streamer.counts.passes
        return num_passes

    return run


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)

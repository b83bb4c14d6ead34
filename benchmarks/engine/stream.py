"""Peak memory of streaming one long video: ``python -m benchmarks.engine.stream``.

A generator yields frames of random features, as many as in two hours at 2 per second, to the bundled checkpoint. About
one frame in twenty triggers a response. The peak is that of the process.
"""

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_steps
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.stream import Streamer

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoint"
TASK = Task(goal="build the toy truck", steps=parse_steps("lay down the board\nattach the axle\nload the block"))
NUM_FRAMES = 14_400
REPORTED_AT = (600, 1200, 2400, 4800, 7200, 14_400)


def generate_frames(checkpoint: Checkpoint, num_frames: int) -> Iterator[FrameFeatures]:
    """Yield random frames with the shape of the checkpoint's features."""
    random = torch.Generator().manual_seed(0)
    shape = (checkpoint.model.tokens_per_frame, checkpoint.model.feature_dim)
    for index in range(num_frames):
        yield FrameFeatures(index=index, time_s=index / 2, features=torch.randn(shape, generator=random))


def find_threshold(checkpoint: Checkpoint, *, share: float) -> float:
    """Return the threshold that a ``share`` of the frames of a silent run exceeds, in [0, 1]."""
    silent = StreamConfig(speak_threshold=1, update_threshold=1)
    outputs = list(Streamer(checkpoint, silent).run(generate_frames(checkpoint, 400), TASK))
    return sorted(output.speak_prob for output in outputs)[round(len(outputs) * (1 - share))]


def main() -> None:
    """Stream the video, and print the peak memory at several lengths."""
    torch.set_num_threads(1)
    checkpoint = load_model(CHECKPOINT, device="cpu")
    config = StreamConfig(speak_threshold=find_threshold(checkpoint, share=0.05), update_threshold=1, max_new_tokens=30)
    streamer = Streamer(checkpoint, config)
    began, spoken, refreshed = time.perf_counter(), 0, 0
    for output in streamer.run(generate_frames(checkpoint, NUM_FRAMES), TASK):
        spoken += output.response is not None
        refreshed += output.refreshed
        number = output.frame_index + 1
        if number in REPORTED_AT:
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB
            sys.stdout.write(
                f"{number:6} frames ({number / 120:5.1f} min): peak {peak_mb:.1f} MB, {spoken} responses, "
                f"{refreshed} refreshes, {number / (time.perf_counter() - began):.0f} frames/s\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()

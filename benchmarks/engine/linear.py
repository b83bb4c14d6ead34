"""Linear layers by oneDNN against PyTorch's own: ``python -m benchmarks.engine.linear``.

The bundled checkpoint encodes 32 frames and one frame, and feeds 150 and 3 tokens, on one thread. Both ways take turns;
the best time of each counts.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import load_checkpoint
from stepscope.engine.plurals import format_count

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoint"
ROUNDS = 40


@torch.inference_mode()
def main() -> None:
    """Print the time of each input, both ways, and the largest difference of the results."""
    torch.set_num_threads(1)
    plain, fast = load_checkpoint(CHECKPOINT, device="cpu").model, load_model(CHECKPOINT, device="cpu").model
    random = torch.Generator().manual_seed(0)
    for num_frames in (32, 1):
        images = torch.randn((num_frames, 3, plain.image_size, plain.image_size), generator=random)
        images = images.contiguous(memory_format=torch.channels_last)
        compare(f"encode {format_count(num_frames, 'frame')}", plain.encode_images, fast.encode_images, images)
    for num_tokens in (150, 3):
        compare(
            f"feed {num_tokens} tokens", plain, fast, torch.randn((1, num_tokens, plain.hidden_size), generator=random)
        )


def compare(name: str, plain: Callable[[Tensor], Tensor], fast: Callable[[Tensor], Tensor], inputs: Tensor) -> None:
    """Print a row."""
    difference = (plain(inputs) - fast(inputs)).abs().max()
    plain_ms, fast_ms = map(
        min, zip(*((measure(plain, inputs), measure(fast, inputs)) for _ in range(ROUNDS)), strict=True)
    )
    sys.stdout.write(
        f"{name:18} PyTorch {plain_ms:6.2f} ms, oneDNN {fast_ms:6.2f} ms, {plain_ms / fast_ms:.2f}x, "
        f"largest difference {difference:.0e}\n"
    )


def measure(call: Callable[[Tensor], Tensor], inputs: Tensor) -> float:
    """Return the milliseconds of a call."""
    began = time.perf_counter()
    call(inputs)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()

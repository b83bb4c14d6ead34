"""Compares replays of a captured step with the eager step, on the same inputs and caches.

Both write the same rows of the KV cache. The rows of the eager step are kept, and blanked with nan before the replay:
rows that it leaves out show, and so does each context row that it should not have written.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from stepscope.engine.inference.kv_pool import SlotKVCache
from stepscope.engine.inference.static import BucketShape, StaticStep

Step = Callable[[], Tensor]
TOLERANCES: Final = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest accepted difference of a probability, and of a cached number as a share of the largest one, at least of 1."""


def run_checked(
    step: StaticStep, replay: Step, caches: Sequence[SlotKVCache], lengths: Sequence[int]
) -> tuple[Tensor, str]:
    """Run a filled step eagerly, then its replay; return the eager results, and a text if the replay's differ.

    Afterwards the caches have the new tokens of one of them: those of the eager step if the replay differs or fails.

    Args:
        step: The step, with the inputs of the pass.
        replay: Its captured function.
        caches: The cache of each stream, before the pass is counted.
        lengths: New tokens of each stream.
    """
    pool, device = step.pool, step.model.device
    starts = [cache.slot * pool.capacity for cache in caches]
    ranges = [(start, start + cache.length) for start, cache in zip(starts, caches, strict=True)]
    new = torch.cat([torch.arange(end, end + length) for (_, end), length in zip(ranges, lengths, strict=True)])
    old = torch.cat([torch.arange(*bounds) for bounds in ranges])
    rows, new = torch.cat([old, new]).to(device), new.to(device)
    buffers = (*pool.keys, *pool.values)
    expected = step().clone()
    kept = [buffer.index_select(0, rows) for buffer in buffers]
    difference = "the replay failed"
    try:
        for buffer in buffers:
            buffer.index_fill_(0, new, torch.nan)
        replayed = replay().clone()
        tolerance, num_tokens = TOLERANCES[step.model.dtype], sum(lengths)
        found = _compare_results(replayed[:, :num_tokens], expected[:, :num_tokens], tolerance)
        now = (buffer.index_select(0, rows) for buffer in buffers)
        cached = max(float(_difference(a, b)) for a, b in zip(now, kept, strict=True))
        found += [f"cached keys and values by {cached:.1e}"] if cached > tolerance else []
        difference = ", ".join(found)
    finally:
        if difference:
            for buffer, values in zip(buffers, kept, strict=True):
                buffer.index_copy_(0, rows, values)
    return expected, difference and f"{_describe(step.shape)} differs from the eager pass: {difference}"


def _compare_results(replayed: Tensor, expected: Tensor, tolerance: float) -> list[str]:
    """Return the differences of results ``[2 to 4, N]``; see ``StaticStep``."""
    probs = float((replayed[:2].nan_to_num(2.0) - expected[:2].nan_to_num(2.0)).abs().max())
    # no tolerance for tokens: both ways run the same kernels, so that even ties are the same
    num_tokens = int((replayed[2:] != expected[2:]).sum())
    return [
        *([f"probabilities by {probs:.1e}"] if probs > tolerance else []),
        *([f"{num_tokens} of {expected[2:].numel()} tokens"] if num_tokens else []),
    ]


def _difference(values: Tensor, wanted: Tensor) -> Tensor:
    """Return the largest difference as a share of the largest wanted number, at least of 1; inf if only one is nan."""
    is_same = (values == wanted) | (values.isnan() & wanted.isnan())
    difference = (values.float() - wanted.float()).abs().masked_fill(is_same, 0.0)
    scale = wanted.float().abs().nan_to_num(nan=0.0, posinf=0.0).amax().clamp(min=1.0)
    return difference.nan_to_num(nan=torch.inf).amax() / scale


def _describe(shape: BucketShape) -> str:
    return (
        f"the CUDA graph of {shape.num_tokens} tokens, {shape.num_slots} slots, {shape.query_len} queries and "
        f"{shape.context_len} keys"
    )

"""Time and memory of matching one long video: ``python -m benchmarks.eval.match``.

Texts are encoded by a table of random vectors, so that only the matching is measured. The peak memory is that of the
whole process, including Python, NumPy and SciPy.
"""

import resource
import sys
import time

import numpy as np

from stepscope.eval.matching.turns import find_match

WIDTH = 384  # of all-MiniLM-L6-v2
WINDOW = (-8, 17)  # of Ego4D at 2 frames per second, the widest that is published


def measure(*, num_frames: int, num_turns: int) -> str:
    """Match ``num_turns`` predictions with as many references, all of different texts; return one line of figures."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((2 * num_turns, WIDTH)).astype(np.float32)
    gen, ref = [""] * num_frames, [""] * num_frames
    for texts, first in ((gen, 0), (ref, num_turns)):
        for number, frame in enumerate(rng.choice(num_frames, size=num_turns, replace=False)):
            texts[frame] = str(first + number)
    start = time.perf_counter()
    match = find_match(gen, ref, encode=lambda texts: table[[int(text) for text in texts]], match_window=WINDOW)
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB
    return (
        f"{num_frames} frames, {num_turns} predictions, {num_turns} references, window {WINDOW}: "
        f"{len(match.pairs)} pairs in {seconds:.2f} s, peak {peak_mb:.0f} MB\n"
    )


if __name__ == "__main__":
    for frames, turns in ((28_800, 2_000), (28_800, 14_400), (28_800, 28_800)):
        sys.stdout.write(measure(num_frames=frames, num_turns=turns))
        sys.stdout.flush()

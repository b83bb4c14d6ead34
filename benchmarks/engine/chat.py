"""Time to the first token of an answer, with and without reuse, by the length of the conversation.

Run ``python -m benchmarks.engine.chat [--turns 10 100 1000]``. A random model of two layers answers the next question
of each conversation twice: a worker that answered the turns before, and one without any cache. Both give the same ids.
"""

import argparse
from collections.abc import Sequence

from benchmarks.random_model import SHAPES, random_checkpoint
from stepscope.engine.bench.reuse import compare_lengths
from stepscope.engine.cli.options import BUNDLED
from stepscope.engine.loading import load_model


def main(turns: Sequence[int]) -> None:
    """Print one line for each length."""
    SHAPES["long"] = {**SHAPES["tiny"], "max_position_embeddings": 2**16}
    checkpoint = random_checkpoint("long", load_model(BUNDLED, device="cpu"))
    print("turns  prompt tokens  reused  with reuse  without   ratio")
    for point in compare_lengths(checkpoint, turns):
        warm, cold = point.warm, point.cold
        print(
            f"{point.num_turns:5}  {point.prompt_tokens:13}  {warm.cached_share:6.1%}  {warm.first_s * 1000:7.1f} ms"
            f"  {cold.first_s * 1000:7.1f} ms  {cold.first_s / warm.first_s:5.1f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 100, 1000])
    main(parser.parse_args().turns)

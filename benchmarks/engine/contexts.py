"""Context strategies on the bundled test videos: ``python -m benchmarks.engine.contexts``.

They have a context of 236 tokens, which 50 s fill several times. ``none`` has a context that the videos do not fill:
the scores that the model has with all of its past. All is streamed in one process; the scores are those of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import get_args

import torch

from stepscope.engine.bench.modes import read_videos
from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import StreamRequest
from stepscope.engine.streamer import Streamer
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.score import analyze_video, score_counts

ASSETS = Path(__file__).parents[2] / "assets"
SPLIT = ASSETS / "demo" / "test.json"
SHORT = StreamConfig(max_seq_len=516, reserved_seq_len=280, kept_tokens=40, max_summary_tokens=24)
SCORES = ("F1", "speaking_f1", "dst_update_f1", "dst_f1", "dst_joint_goal_accuracy")


def main() -> None:
    """Stream the videos with each strategy, and print a row of scores and costs."""
    torch.set_num_threads(1)
    checkpoint, encode = load_model(ASSETS / "checkpoint", device="cpu"), load_encoder().encode
    videos, samples = read_videos(SPLIT, checkpoint), {sample.video_id: sample for sample in read_samples(SPLIT)}
    print(f"{'strategy':<20} {'cuts':>5} {'passes':>7} {'tokens':>7} {' '.join(SCORES)}")
    for strategy in get_args(ContextStrategy):
        config = replace(StreamConfig() if strategy == "none" else SHORT, context_strategy=strategy)
        print(_measure(Streamer(checkpoint, config), videos, samples, encode), flush=True)


def _measure(streamer: Streamer, videos: Sequence[StreamRequest], samples: Mapping[str, Sample], encode: Encode) -> str:
    """Stream the videos; return the row of a strategy."""
    outputs = dict[str, list[FrameOutput]]()
    for event in streamer.run_many(videos, max_batch_size=16):
        if event.error is not None:
            return f"{streamer.config.context_strategy:<20} {event.error}"
        if event.output is not None:
            outputs.setdefault(event.video_id, []).append(event.output)
    counts = [analyze_video(samples[name], found, encode=encode).counts for name, found in outputs.items()]
    scores = score_counts(reduce(add, counts))
    cuts = sum(output.refreshed for found in outputs.values() for output in found)
    shown = "  ".join(f"{scores[name]:.3f}" for name in SCORES)
    passes, tokens = streamer.counts.passes, streamer.counts.tokens
    return f"{streamer.config.context_strategy:<20} {cuts:5} {passes:7} {tokens:7}  {shown}"


if __name__ == "__main__":
    main()

"""Context strategies on bundled test videos: ``python -m benchmarks.engine.contexts [VIDEO]``.

By default the 16 test videos, with a context of 236 tokens, which 50 s fill several times. With ``VIDEO`` one of them,
made long by waits (``benchmarks.engine.long_video``). ``none`` has a context that the videos do not fill: the scores
that the model has with all of its past. Everything is streamed in one process; the scores are those of a run.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import get_args

import torch

from benchmarks.engine.long_video import lengthen
from stepscope.engine.bench.modes import read_videos
from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import StreamRequest
from stepscope.engine.streamer import Streamer
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.score import analyze_video, score_counts

ASSETS = Path(__file__).parents[2] / "assets"
SPLIT = ASSETS / "demo" / "test.json"
SHORT = StreamConfig(max_seq_len=516, reserved_seq_len=280, kept_tokens=40, max_summary_tokens=24)
SCORES = ("F1", "speaking_f1", "dst_update_f1", "dst_f1", "dst_joint_goal_accuracy")


def main() -> None:
    """Stream the videos with each strategy, and print a row of scores and costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", nargs="?", help="one test video, such as sandwich, with a wait after each moment")
    parser.add_argument("wait_s", nargs="?", type=float, default=120.0, help="seconds of each wait")
    options = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint, encode = load_model(ASSETS / "checkpoint", device="cpu"), load_encoder().encode
    only = [options.video] if options.video else None
    videos, samples = read_videos(SPLIT, checkpoint, only=only), {s.video_id: s for s in read_samples(SPLIT)}
    if options.video:
        (video,) = videos
        features, sample = lengthen(list(video.features), samples[options.video], wait_s=options.wait_s)
        videos, samples = [replace(video, features=features, task=build_task(sample))], {sample.video_id: sample}
        sys.stdout.write(f"{sample.video_id}: {len(features)} frames, {len(features) / sample.fps / 60:.0f} min\n")
    sys.stdout.write(f"{'strategy':<20} {'cuts':>5} {'passes':>7} {'tokens':>7} {' '.join(SCORES)}\n")
    for strategy in get_args(ContextStrategy):
        config = replace(StreamConfig() if strategy == "none" else SHORT, context_strategy=strategy)
        sys.stdout.write(_measure(Streamer(checkpoint, config), videos, samples, encode))
        sys.stdout.flush()


def _measure(streamer: Streamer, videos: Sequence[StreamRequest], samples: Mapping[str, Sample], encode: Encode) -> str:
    """Stream the videos; return the row of a strategy."""
    outputs = dict[str, list[FrameOutput]]()
    for event in streamer.run_many(videos, max_batch_size=16):
        if event.error is not None:
            return f"{streamer.config.context_strategy:<20} {event.error}\n"
        if event.output is not None:
            outputs.setdefault(event.video_id, []).append(event.output)
    counts = [analyze_video(samples[name], found, encode=encode).counts for name, found in outputs.items()]
    scores = score_counts(reduce(add, counts))
    cuts = sum(output.refreshed for found in outputs.values() for output in found)
    shown = "  ".join(f"{scores[name]:.3f}" for name in SCORES)
    passes, tokens = streamer.counts.passes, streamer.counts.tokens
    return f"{streamer.config.context_strategy:<20} {cuts:5} {passes:7} {tokens:7}  {shown}\n"


if __name__ == "__main__":
    main()

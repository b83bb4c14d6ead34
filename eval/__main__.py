"""Command line of the evaluation: ``run`` a split on one device and score it.

Exit codes: 0 all well; 1 done, but some videos failed (each has its row); 2 wrong use, with one line why.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from engine.checkpoint import Checkpoint, load_model
from engine.config import StreamConfig
from engine.control import Task
from engine.errors import EngineError, VideoError
from engine.records import FrameOutput
from engine.stream import Streamer
from engine.video import read_frames
from engine.vision import encode
from eval.encoders import EMBEDDED, load_encoder
from eval.metrics import VideoCounts, score_video, summarize
from eval.nlg import TextScorer
from eval.runs import write_settings, write_video
from eval.samples import Sample, read_samples
from eval.table import format_scores, write_csv, write_json

BUNDLED = Path(__file__).parent.parent / "assets" / "checkpoint"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        return run(options)
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run(options: argparse.Namespace) -> int:
    """Stream every video of a split, write the run folder and the scores; 1 when a video failed."""
    samples = read_samples(options.split)
    config = StreamConfig(
        lookahead=16, speak_threshold=options.speak_threshold, update_threshold=options.update_threshold
    )
    checkpoint = load_model(options.checkpoint, device=options.device, heads=options.heads)
    encoder = load_encoder(options.encoder)
    settings = {
        "split": str(options.split),
        "checkpoint": checkpoint.name,
        "model_digest": checkpoint.digest,
        "device": str(checkpoint.model.device),
        "config": asdict(config),
        "text_encoder": encoder.name,
        "zero_cost": options.zero_cost,
    }
    write_settings(options.out, settings)
    rows: dict[str, VideoCounts] = {}
    errors: dict[str, str] = {}
    for sample in tqdm(samples, unit="video"):
        try:
            outputs = stream_sample(checkpoint, config, sample)
            write_video(options.out, sample.video_id, outputs)
            rows[sample.video_id] = score_video(
                sample, outputs, encode=encoder.encode, dataset=options.dataset, zero_cost=options.zero_cost
            )
        except (EngineError, ValueError) as error:
            errors[sample.video_id] = str(error)
    with TextScorer() as scorer:
        scores = summarize(list(rows.values()), text_scores=scorer.score)
        problem = scorer.problem
    write_csv(options.out / "videos.csv", [_row(sample, rows, errors) for sample in samples])
    write_json(options.out / "metrics.json", {**settings, "text_problem": problem, "errors": errors, "scores": scores})
    print(format_scores(scores))
    for video_id, reason in errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    return 1 if errors else 0


def stream_sample(checkpoint: Checkpoint, config: StreamConfig, sample: Sample) -> list[FrameOutput]:
    """Stream one sample's video. Raises ``VideoError`` when it has none."""
    if sample.video_path is None:
        raise VideoError(f"{sample.video_id} names no video file; add video_path")
    frames = encode(checkpoint, read_frames(sample.video_path, fps=sample.fps))
    task = Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state)
    return list(Streamer(checkpoint, replace(config, fps=sample.fps)).run(frames, task))


def _row(sample: Sample, rows: Mapping[str, VideoCounts], errors: Mapping[str, str]) -> dict[str, str | float]:
    counts = [rows[sample.video_id]] if sample.video_id in rows else []
    return {"video_id": sample.video_id, "error": errors.get(sample.video_id, ""), **summarize(counts)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("run", help="stream a split and score it")
    command.add_argument("split", type=Path, help="manifest of the split")
    command.add_argument("--out", type=Path, required=True, help="run folder to write")
    command.add_argument("--checkpoint", default=BUNDLED, help="folder or hub id (default: the bundled checkpoint)")
    command.add_argument("--heads", type=Path, help="heads file, if not the checkpoint's own")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    command.add_argument("--speak-threshold", type=float, default=0.5)
    command.add_argument("--update-threshold", type=float, default=0.5)
    command.add_argument("--encoder", default=EMBEDDED, help="text encoder (default: %(default)s)")
    command.add_argument("--dataset", default="", help="name that chooses the match window, such as assembly101")
    command.add_argument("--zero-cost", choices=("keep", "drop"), default="keep")
    return parser


if __name__ == "__main__":
    sys.exit(main())

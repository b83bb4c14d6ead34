"""Command line of the evaluation: ``run`` a split on one device and score it; ``metrics`` prints the definitions.

Exit codes: 0 all well; 1 done, but some videos failed (each has its row); 2 wrong use, with one line why.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from engine.checkpoint import Checkpoint, load_model
from engine.config import StreamConfig
from engine.control import Task
from engine.errors import EngineError, VideoError
from engine.records import FrameOutput
from engine.stream import Streamer
from engine.video import read_frames
from engine.vision import FrameFeatures, encode
from eval.encoders import EMBEDDED, load_encoder
from eval.live import LiveCounts, count_live
from eval.metrics import ScoredVideo, VideoCounts, count_texts, score_video
from eval.nlg import TextScorer
from eval.registry import to_markdown
from eval.report import make_report, video_scores
from eval.runs import write_settings, write_video
from eval.samples import Sample, read_samples
from eval.table import format_scores, write_columns, write_csv, write_json
from eval.teacher import live_turns

BUNDLED = Path(__file__).parent.parent / "assets" / "checkpoint"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    transformers_logging.disable_progress_bar()
    try:
        return int(options.work(options))
    except (EngineError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def print_metrics(_: argparse.Namespace) -> int:
    """Print ``docs/metrics.md``."""
    sys.stdout.write(to_markdown())
    return 0


def run(options: argparse.Namespace) -> int:
    """Stream every video of a split, write the run folder and the scores; 1 when a video failed."""
    samples = read_samples(options.split)
    if not samples:
        raise ValueError(f"{options.split} holds no videos; there is nothing to score")
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"--out {options.out} is a file; name a folder for the run")
    config = StreamConfig(speak_threshold=options.speak_threshold, update_threshold=options.update_threshold)
    checkpoint = load_model(options.checkpoint, device=options.device, heads=options.heads)
    encoder = load_encoder(options.encoder)
    settings = {
        "split": str(options.split),
        "dataset": options.dataset,
        "checkpoint": checkpoint.name,
        "model_digest": checkpoint.digest,
        "device": str(checkpoint.model.device),
        "config": asdict(config),
        "text_encoder": encoder.name,
        "zero_cost": options.zero_cost,
    }
    write_settings(options.out, settings)
    scored: dict[str, ScoredVideo] = {}
    errors: dict[str, str] = {}
    with TextScorer() as scorer:  # it starts in the background while the videos are streamed
        for sample in tqdm(samples, unit="video"):
            began = time.perf_counter()
            try:
                outputs = stream_sample(checkpoint, config, sample)
                wall_s = time.perf_counter() - began
                write_video(options.out, sample.video_id, outputs)
                scored[sample.video_id] = score_video(
                    sample,
                    outputs,
                    encode=encoder.encode,
                    dataset=options.dataset,
                    zero_cost=options.zero_cost,
                    live=teacher_forced(checkpoint, config, sample) if options.live else None,
                    wall_s=wall_s,
                )
            except (EngineError, ValueError) as error:
                errors[sample.video_id] = str(error)
        counts = dict(zip(scored, count_texts(list(scored.values()), scorer), strict=True))
        report = make_report(list(counts.values()), score_texts=scorer.summarize)
        report = replace(report, scores={**report.scores, "peak_memory_mb": peak_memory_mb(checkpoint.model.device)})
        rows = [_row(sample, counts, errors, scorer) for sample in samples]
        problem = scorer.problem
    write_csv(options.out / "videos.csv", rows)
    write_columns(options.out / "columns.csv")
    write_json(options.out / "metrics.json", {**settings, "text_problem": problem, "errors": errors, **asdict(report)})
    print(f"{_heading(settings, len(counts), len(samples))}\n\n{format_scores(report.scores, report.intervals)}\n")
    print(f"all {len(report.scores)} scores: {options.out}/metrics.json; each video's: {options.out}/videos.csv")
    if problem is not None:
        print(f"text scores are missing: {problem}", file=sys.stderr)
    for video_id, reason in errors.items():
        print(f"failed: {video_id}: {reason}", file=sys.stderr)
    return 1 if errors else 0


def stream_sample(checkpoint: Checkpoint, config: StreamConfig, sample: Sample) -> list[FrameOutput]:
    """Stream one sample's video. Raises ``VideoError`` when it has none."""
    task = Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state)
    return list(Streamer(checkpoint, replace(config, fps=sample.fps)).run(encoded(checkpoint, sample), task))


def encoded(checkpoint: Checkpoint, sample: Sample) -> Iterator[FrameFeatures]:
    """Decode and encode one sample's video. Raises ``VideoError`` when it has none."""
    if sample.video_path is None:
        raise VideoError(f"{sample.video_id} names no video file; add video_path")
    return encode(checkpoint, read_frames(sample.video_path, fps=sample.fps))


def teacher_forced(checkpoint: Checkpoint, config: StreamConfig, sample: Sample) -> LiveCounts:
    """Feed one sample's reference to the model and count its four scores."""
    turns = live_turns(checkpoint, replace(config, fps=sample.fps), sample, encoded(checkpoint, sample))
    return count_live(turns, fps=sample.fps, threshold=0)


def peak_memory_mb(device: torch.device) -> float:
    """Return the largest memory so far: of the GPU where there is one, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _row(
    sample: Sample, counts: Mapping[str, VideoCounts], errors: Mapping[str, str], scorer: TextScorer
) -> dict[str, str | float]:
    rows = [counts[sample.video_id]] if sample.video_id in counts else []
    scores = video_scores(rows, score_texts=scorer.summarize)
    return {"video_id": sample.video_id, "error": errors.get(sample.video_id, ""), **scores}


def _heading(settings: Mapping[str, Any], num_scored: int, num_videos: int) -> str:
    config = settings["config"]
    return (
        f"{num_scored} of {num_videos} videos, micro average, 95 % intervals by bootstrap over videos\n"
        f"checkpoint {settings['checkpoint']} ({settings['model_digest'][:12]}) on {settings['device']}, "
        f"thresholds speak {config['speak_threshold']:g}, update {config['update_threshold']:g}\n"
        f"text encoder {settings['text_encoder']}, zero_cost {settings['zero_cost']}; "
        "what each score means: docs/metrics.md"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("run", help="stream a split and score it")
    command.add_argument("split", type=Path, help="manifest of the split")
    command.add_argument("--out", type=Path, required=True, help="run folder to write")
    command.add_argument("--checkpoint", default=BUNDLED, help="folder or hub id (default: the bundled checkpoint)")
    command.add_argument("--heads", type=Path, help="heads file, if not the checkpoint's own")
    command.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    for decision in ("speak", "update"):
        about = f"{decision} when the probability exceeds this (default: %(default)s)"
        command.add_argument(f"--{decision}-threshold", type=float, default=0.5, metavar="P", help=about)
    command.add_argument("--encoder", default=EMBEDDED, help="text encoder (default: %(default)s)")
    command.add_argument("--dataset", default="", help="name that chooses the match window, such as assembly101")
    command.add_argument(
        "--zero-cost",
        choices=("keep", "drop"),
        default="keep",
        help="whether a perfect response on the very frame counts, or is lost as in the published program",
    )
    command.add_argument(
        "--live", action="store_true", help="VideoLLM-online's scores too: a second, teacher-forced pass"
    )
    command.set_defaults(work=run)
    command = commands.add_parser("metrics", help="print what every score means, as docs/metrics.md")
    command.set_defaults(work=print_metrics)
    return parser


if __name__ == "__main__":
    sys.exit(main())

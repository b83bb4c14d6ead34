"""Command-line options that several commands share, and their conversion to settings."""

import argparse
from pathlib import Path
from typing import Final

from engine.config import StreamConfig
from eval.matching.sentence_encoders import DEFAULT_ENCODER
from eval.metrics.definitions import NUM_FAILURES
from eval.reports.scoring import ScoreSettings
from eval.runs.worker import WorkerConfig
from eval.sweeps.grid import DEFAULT_METRICS

BUNDLED: Final = Path(__file__).parent.parent / "assets" / "checkpoint"


def make_score_parser() -> argparse.ArgumentParser:
    """Return a parent parser with the options of scoring."""
    scores = argparse.ArgumentParser(add_help=False)
    scores.add_argument("--encoder", default=DEFAULT_ENCODER, help="text encoder (default: %(default)s)")
    scores.add_argument("--dataset", default="", help="name that chooses the match window, such as assembly101")
    scores.add_argument(
        "--zero-cost",
        choices=("keep", "drop"),
        default="keep",
        help="keep or drop a match of cost 0, a perfect response on the exact frame; the published program drops it",
    )
    return scores


def parse_score_settings(options: argparse.Namespace) -> ScoreSettings:
    """Return the score settings of parsed options."""
    return ScoreSettings(text_encoder=options.encoder, dataset=options.dataset, zero_cost=options.zero_cost)


def make_model_parser() -> argparse.ArgumentParser:
    """Return a parent parser with the options of the model."""
    model = argparse.ArgumentParser(add_help=False)
    model.add_argument("--checkpoint", default=BUNDLED, help="folder or hub id (default: the bundled checkpoint)")
    model.add_argument("--heads", type=Path, help="heads file that replaces the checkpoint's own")
    model.add_argument(
        "--features",
        type=Path,
        metavar="DIR",
        help="keep frame embeddings there (float16), so that the next run need not encode the videos",
    )
    return model


def make_video_parser() -> argparse.ArgumentParser:
    """Return a parent parser with the folder of a split's videos."""
    videos = argparse.ArgumentParser(add_help=False)
    videos.add_argument(
        "--videos",
        type=Path,
        metavar="DIR",
        help="folder to search recursively for videos of records whose video_path is missing or does not exist; a file "
        "name must be the record's video_id, video_uid or frames_file",
    )
    return videos


def parse_worker_config(options: argparse.Namespace, config: StreamConfig) -> WorkerConfig:
    """Return the worker configuration of parsed options, with the stream settings ``config``."""
    return WorkerConfig(
        checkpoint=str(options.checkpoint), heads=options.heads, config=config, features=options.features
    )


def add_sweep_options(command: argparse.ArgumentParser) -> None:
    """Add the options of ``sweep``."""
    command.add_argument("split", type=Path, help="manifest of the split to tune on: validation, not test")
    command.add_argument("--out", type=Path, help="sweep folder to write: sweep.csv, sweep.json; a preview needs none")
    command.add_argument("--resume", action="store_true", help="keep the finished videos of --out and run the rest")
    for decision in ("speak", "update"):
        about = f"{decision} thresholds: FIRST:LAST:NUMBER, or with commas (default: %(default)s)"
        command.add_argument(f"--{decision}", default="0.1:0.9:9", metavar="GRID", help=about)
    command.add_argument(
        "--preview",
        type=Path,
        metavar="RUN",
        help="derive the decisions from the probabilities of this run folder, without a model; approximate, "
        "since different decisions change the context of the model",
    )
    command.add_argument(
        "--metric",
        nargs="+",
        metavar="NAME",
        help="scores to choose the best point by; see docs/metrics.md "
        f"(default: {NUM_FAILURES} where each point is run, and {' '.join(DEFAULT_METRICS)})",
    )
    command.add_argument(
        "--device", default="auto", help="auto, cuda:0, mps, cpu, or cpu:1 for one thread (default: %(default)s)"
    )

"""Options that commands share, and what is made of them: how to score, and which model to run."""

import argparse
from pathlib import Path
from typing import Final

from engine.config import StreamConfig
from eval.matching.sentence_encoders import DEFAULT_ENCODER
from eval.metrics.definitions import NUM_FAILURES
from eval.reports.scoring import ScoreSettings
from eval.runs.worker import Work
from eval.sweeps.grid import DEFAULT_METRICS

BUNDLED: Final = Path(__file__).parent.parent / "assets" / "checkpoint"


def score_options() -> argparse.ArgumentParser:
    """Return the options of scoring, as a parent of commands."""
    scores = argparse.ArgumentParser(add_help=False)
    scores.add_argument("--encoder", default=DEFAULT_ENCODER, help="text encoder (default: %(default)s)")
    scores.add_argument("--dataset", default="", help="name that chooses the match window, such as assembly101")
    scores.add_argument(
        "--zero-cost",
        choices=("keep", "drop"),
        default="keep",
        help="whether a perfect response on the very frame counts, or is lost as in the published program",
    )
    return scores


def scoring_of(options: argparse.Namespace) -> ScoreSettings:
    """Return how to score."""
    return ScoreSettings(text_encoder=options.encoder, dataset=options.dataset, zero_cost=options.zero_cost)


def model_options() -> argparse.ArgumentParser:
    """Return the options of the model, as a parent of commands."""
    model = argparse.ArgumentParser(add_help=False)
    model.add_argument("--checkpoint", default=BUNDLED, help="folder or hub id (default: the bundled checkpoint)")
    model.add_argument("--heads", type=Path, help="heads file, if not the checkpoint's own")
    model.add_argument(
        "--features",
        type=Path,
        metavar="DIR",
        help="keep frame embeddings there (float16), so that another threshold does not encode the videos again",
    )
    return model


def video_options() -> argparse.ArgumentParser:
    """Return the option that says where the videos of a split are, as a parent of commands."""
    videos = argparse.ArgumentParser(add_help=False)
    videos.add_argument(
        "--videos",
        type=Path,
        metavar="DIR",
        help="folder, searched with all folders in it, for the videos of records without video_path: a file is called "
        "as the record's video_id or video_uid, or as its frames_file; also for a video_path that is not there",
    )
    return videos


def work_of(options: argparse.Namespace, config: StreamConfig) -> Work:
    """Return what is run, streamed as ``config`` says."""
    return Work(checkpoint=str(options.checkpoint), heads=options.heads, config=config, features=options.features)


def add_sweep_options(command: argparse.ArgumentParser) -> None:
    """Add the options of ``sweep``."""
    command.add_argument("split", type=Path, help="manifest of the split to tune on: validation, not test")
    command.add_argument("--out", type=Path, help="sweep folder to write: sweep.csv, sweep.json; a preview needs none")
    command.add_argument("--resume", action="store_true", help="keep the finished videos of --out and run the others")
    for decision in ("speak", "update"):
        about = f"{decision} thresholds: FIRST:LAST:NUMBER, or with commas (default: %(default)s)"
        command.add_argument(f"--{decision}", default="0.1:0.9:9", metavar="GRID", help=about)
    command.add_argument(
        "--preview",
        type=Path,
        metavar="RUN",
        help="take the decisions from the probabilities of this run folder, without a model, in seconds: with other "
        "decisions the model would have read another context",
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

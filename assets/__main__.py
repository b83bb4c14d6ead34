"""Build and evaluate the bundled files: ``checkpoint``, ``videos``, ``score``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from transformers.utils import logging as transformers_logging

from assets.build import BuildConfig, build_checkpoint, write_train_split
from assets.demo_videos import KINDS, TEST_VIDEOS, VAL_VIDEOS, Kind, draw_split
from assets.recipes import HELD_OUT_FAMILY
from assets.score import HEADER, Baseline, Score, score_baseline, score_bundled, score_kind
from engine.loading import load_model

HERE = Path(__file__).parent


def main() -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m assets", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("checkpoint", help="train and write the checkpoint; resumes after an interruption")
    command.add_argument("--out", type=Path, default=HERE / "checkpoint")
    command.add_argument("--work", type=Path, default=Path("work"), help="folder for the files of each stage")
    command.add_argument("--seed", type=int, default=0)
    for name in ("vision_scenes", "lookup_steps", "stream_scenes", "stream_steps"):
        default = BuildConfig.__dataclass_fields__[name].default
        command.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help="(default: %(default)s)")

    command = commands.add_parser("videos", help="draw the bundled videos and write the manifests of all splits")
    command.add_argument("--out", type=Path, default=HERE / "demo")

    command = commands.add_parser("score", help="score a checkpoint on newly generated scenes")
    command.add_argument("--checkpoint", type=Path, default=HERE / "checkpoint")
    command.add_argument("--videos", type=int, default=50, help="number of scenes per kind (default: %(default)s)")
    command.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))

    options = vars(parser.parse_args())
    transformers_logging.disable_progress_bar()
    match options.pop("command"):
        case "checkpoint":
            out = options.pop("out")
            build_checkpoint(BuildConfig(**options), out)
        case "videos":
            draw_split(TEST_VIDEOS, options["out"] / "test.json")
            draw_split(VAL_VIDEOS, options["out"] / "val.json")
            write_train_split(BuildConfig(work=Path()), options["out"] / "train.json")
        case _:
            print_scores(options["checkpoint"], options["kinds"], options["videos"])
    return 0


def print_scores(folder: Path, kinds: Sequence[Kind], num_videos: int) -> None:
    """Print the table of scores: generated scenes, the held-out family, the bundled videos, and baselines."""
    checkpoint = load_model(folder)
    print(f"{'':22} {HEADER}")

    def show(name: str, score: Score) -> None:
        print(f"{name:22} {score.row()}", flush=True)

    for kind in kinds:
        show(kind, score_kind(checkpoint, kind, num_videos=num_videos))
    for kind in kinds:
        show(f"{HELD_OUT_FAMILY}, {kind}", score_kind(checkpoint, kind, num_videos=num_videos, family=HELD_OUT_FAMILY))
    show("bundled test videos", score_bundled(checkpoint, HERE / "demo"))
    for name in get_args(Baseline):
        show(f"{name}, {kinds[0]}", score_baseline(name, kinds[0], num_videos=num_videos))


if __name__ == "__main__":
    sys.exit(main())

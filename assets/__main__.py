"""Makes and measures what is bundled: ``checkpoint``, ``videos``, ``score``."""

import argparse
import sys
from pathlib import Path

from transformers.utils import logging as transformers_logging

from assets.build import BuildConfig, build_checkpoint
from assets.demo_videos import BUNDLED_VIDEOS, draw_split
from assets.score import HEADER, KINDS, score_bundled, score_kind
from engine.checkpoint import load_model

HERE = Path(__file__).parent


def main() -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m assets", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("checkpoint", help="draw, train and write the checkpoint; goes on after a kill")
    command.add_argument("--out", type=Path, default=HERE / "checkpoint")
    command.add_argument("--work", type=Path, default=Path("work"), help="folder of the stages' files")
    command.add_argument("--seed", type=int, default=0)
    for name in ("vision_scenes", "lookup_steps", "curriculum_steps", "stream_scenes", "stream_steps"):
        default = BuildConfig.__dataclass_fields__[name].default
        command.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help="(default: %(default)s)")

    command = commands.add_parser("videos", help="draw the bundled videos and their manifest")
    command.add_argument("--out", type=Path, default=HERE / "demo" / "test.json")

    command = commands.add_parser("score", help="score a checkpoint on fresh scenes")
    command.add_argument("--checkpoint", type=Path, default=HERE / "checkpoint")
    command.add_argument("--videos", type=int, default=50, help="scenes of each kind (default: %(default)s)")
    command.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))

    options = vars(parser.parse_args())
    transformers_logging.disable_progress_bar()
    match options.pop("command"):
        case "checkpoint":
            out = options.pop("out")
            build_checkpoint(BuildConfig(**options), out)
        case "videos":
            draw_split(BUNDLED_VIDEOS, options["out"])
        case _:
            checkpoint = load_model(options["checkpoint"])
            print(f"{'kind':15} {HEADER}")
            for kind in options["kinds"]:
                print(f"{kind:15} {score_kind(checkpoint, kind, num_videos=options['videos']).row()}", flush=True)
            print(f"{'bundled videos':15} {score_bundled(checkpoint, HERE / 'demo').row()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``stepscope check``: compares a checkpoint with transformers' own processor and model, without a video."""

from dataclasses import dataclass

from tyro.conf import Positional

from stepscope.engine.check.comparisons import check_checkpoint
from stepscope.engine.cli.commands import load_checkpoint
from stepscope.engine.cli.options import BUNDLED, ModelOptions


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ModelOptions):
    """Check a checkpoint without a video: its ids, pictures, probabilities and texts against those of transformers.

    The exit code is 1 if a difference matters.
    """

    checkpoint: Positional[str] = str(BUNDLED)
    """Checkpoint folder, hub id, or bundled, bundled-silent-token or bundled-answer."""


def check(options: CheckOptions) -> int:
    """Print a line for each comparison; return 1 if a difference matters."""
    num_wrong = 0
    for line in check_checkpoint(load_checkpoint(options)):
        verdict = "n.a." if line.verdict == "not applicable" else line.verdict
        weight = {True: "matters: ", False: "small: "}[line.matters] if line.verdict == "differs" else ""
        print(f"{line.name:<26}{verdict:<9}{weight}{line.detail}", flush=True)
        num_wrong += line.matters
    print("all ok" if not num_wrong else f"differences that matter: {num_wrong}")
    return 1 if num_wrong else 0

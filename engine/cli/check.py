"""``stepscope check``: compares a checkpoint with transformers' own processor and model, without a video."""

from dataclasses import dataclass

from tyro.conf import Positional

from stepscope.engine.check.comparisons import check_checkpoint
from stepscope.engine.cli.commands import load_checkpoint
from stepscope.engine.cli.options import ModelOptions


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ModelOptions):
    """Compare the ids, pictures, probabilities and texts of a checkpoint with those of transformers, without a video.

    The exit code is 1 if a difference matters.
    """

    checkpoint: Positional[str]
    """Checkpoint folder, hub id, or bundled, bundled-silent-token or bundled-answer."""


def check(options: CheckOptions) -> int:
    """Print a line for each comparison; return 1 if a difference matters."""
    num_wrong = 0
    for line in check_checkpoint(load_checkpoint(options)):
        verdict = {"small": "differs, small", "matters": "differs, matters"}.get(line.verdict, line.verdict)
        print(f"{line.name:<27}{verdict:<18}{line.detail}", flush=True)
        num_wrong += line.verdict == "matters"
    print(f"{num_wrong} of the differences matter" if num_wrong else "ok: no difference matters")
    return 1 if num_wrong else 0

"""``python -m stepscope.app`` with the outputs of ``make_long_run`` instead of a model, at a constant rate.

Environment variables: ``SCRIPTED_FRAMES`` of the video, ``SCRIPTED_TURNS`` of its reference, and
``SCRIPTED_RATE`` in frames per second. ``--data`` has the sample of that run.
"""

import os
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stepscope.app.__main__ import main
from stepscope.engine.records import FrameOutput
from tests.support.pages.long_run import make_long_run


class ScriptedStreamer:
    """Yields the outputs of a synthetic run at a constant rate."""

    def __init__(self, *_: Any) -> None:
        self.rate = float(os.environ["SCRIPTED_RATE"])
        frames, turns = int(os.environ["SCRIPTED_FRAMES"]), int(os.environ["SCRIPTED_TURNS"])
        self.outputs = make_long_run(Path("long.mp4"), num_frames=frames, num_turns=turns).outputs

    def run(self, *_: Any, **__: Any) -> Generator[FrameOutput]:
        """Yield the outputs, each at its time."""
        began = time.perf_counter()
        for number, output in enumerate(self.outputs):
            time.sleep(max(0.0, began + number / self.rate - time.perf_counter()))
            yield output


def _leave_alone(_: Any, frames: Iterable[Any], **__: Any) -> Iterable[Any]:
    return frames


if __name__ == "__main__":
    with (
        patch("stepscope.app.core.plan.Streamer", ScriptedStreamer),
        patch("stepscope.app.core.plan.encode", _leave_alone),
        patch("stepscope.app.player.branches.MAX_RECORDED_VALUES", 0),
    ):
        sys.exit(main(sys.argv[1:]))

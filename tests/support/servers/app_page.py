"""``python -m stepscope.app``; videos named ``slow...`` stream slowly, so that tests can act during a run."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stepscope.app.__main__ import main
from stepscope.engine.video.reader import Frame, read_frames

PAUSES_S = {"slower": 0.3, "slow": 0.1}
"""Time for each frame, by the beginning of the name of the video."""


def _read(path: str | Path, **more: Any) -> Iterator[Frame]:
    pause_s = next((pause_s for name, pause_s in PAUSES_S.items() if Path(path).name.startswith(name)), 0.0)
    for frame in read_frames(path, **more):
        time.sleep(pause_s)
        yield frame


if __name__ == "__main__":
    with patch("stepscope.app.core.plan.read_frames", _read):
        sys.exit(main(sys.argv[1:]))

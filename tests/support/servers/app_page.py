"""``python -m app``; videos named ``slow...`` stream at 10 frames per second, so that tests can act during a run."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from app.__main__ import main
from engine.video.reader import Frame, read_frames


def _read(path: str | Path, **more: Any) -> Iterator[Frame]:
    for frame in read_frames(path, **more):
        if Path(path).name.startswith("slow"):
            time.sleep(0.1)
        yield frame


if __name__ == "__main__":
    with patch("app.player.session.plan.read_frames", _read):
        sys.exit(main(sys.argv[1:]))

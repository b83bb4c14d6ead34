"""Folders that tests read."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ASSETS: Final = ROOT / "assets"
GOLDEN: Final = ROOT / "tests" / "data" / "golden"
"""Figures of the published programs; see its README."""
SHARED: Final = Path(os.environ.get("STEPSCOPE_SHARED", ROOT.parent / "shared"))
"""METEOR's golden figures, real dialogues and real videos, outside of the repository; may be absent."""
REAL_VIDEOS: Final = SHARED / "data" / "videos"

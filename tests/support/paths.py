"""Folders that tests read."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ASSETS: Final = ROOT / "assets"
SHARED: Final = Path(os.environ.get("STEPSCOPE_SHARED", ROOT.parent / "shared"))
"""Golden figures, real dialogues and real videos, outside of the repository; may be absent."""
REAL_VIDEOS: Final = SHARED / "data" / "videos"

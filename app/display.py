"""The video that the browser gets: the file itself, or a converted copy where the browser cannot play it.

Copies are kept by the content of their source, so that a video is converted once however often it is uploaded.
"""

import hashlib
from pathlib import Path
from threading import Lock

from engine.h264 import convert_for_browser
from engine.video import probe


class DisplayCopies:
    """Converted copies in a folder, which whoever made it removes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()

    def find_or_convert(self, path: Path) -> Path:
        """Return a file that a browser plays. Raises ``VideoError`` when the video cannot be read."""
        if probe(path).is_browser_playable:
            return path
        copy = self._folder / f"{_digest(path)}.mp4"
        with self._lock:
            if not copy.exists():
                convert_for_browser(path, copy)
        return copy


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

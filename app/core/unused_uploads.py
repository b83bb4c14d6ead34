"""Removes uploads that nothing uses when the last window of a page is closed.

Gradio's upload does not name its window. Other uploads are removed by Gradio after a day.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Final

GRACE_S: Final = 60.0
"""Time in seconds between the close of the last window and the removal: a reload opens another one."""
_NAME_CHARS: Final = 64
"""Length of the SHA-256 that names the folder of each upload; other files of the page lie elsewhere."""


class UnusedUploads:
    """Counts the open windows of a page.

    Args:
        folder: Folder of all uploads.
        is_busy: Whether something runs without a window, which may need any upload.
        is_used: Whether a file was run or scored, so that a link may open it again.
    """

    def __init__(self, folder: Path, *, is_busy: Callable[[], bool], is_used: Callable[[Path], bool]) -> None:
        self._folder, self._is_busy, self._is_used = folder, is_busy, is_used
        self._windows = set[str | None]()
        self._timer: Timer | None = None

    def open(self, window: str | None) -> None:
        """Count a window."""
        self._windows.add(window)

    def close(self, window: str | None) -> None:
        """Count a window no longer. After the last one, remove the unused uploads in ``GRACE_S``."""
        self._windows.discard(window)
        if not self._windows:
            if self._timer is not None:
                self._timer.cancel()  # each is a thread, and anybody can open and close windows
            self._timer = Timer(GRACE_S, self._remove)
            self._timer.daemon = True
            self._timer.start()

    def _remove(self) -> None:
        if self._windows or self._is_busy():
            return
        until = time.time() - GRACE_S  # a program may have just uploaded a file for its next call
        for folder in self._folder.iterdir():
            with suppress(OSError):  # no folder, or removed meanwhile
                for path in list(folder.iterdir()) if len(folder.name) == _NAME_CHARS else ():
                    if path.lstat().st_mtime <= until and not self._is_used(path.resolve()):
                        path.unlink()
                        folder.rmdir()

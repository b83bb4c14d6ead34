"""Files that the page hands to browsers: copies in a folder that Gradio serves, made only of files that were checked.

The page gives Gradio no other path. So its file route answers for these copies and for what a window uploaded or
exported, and for nothing else on this machine, whatever a split, a link or a run folder names.
"""

import hashlib
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from gradio.utils import get_upload_folder

from engine.errors import VideoError
from engine.io import atomic_write
from engine.video.reader import probe
from engine.video.writer import convert_for_browser

FOLDER_VARIABLE = "GRADIO_TEMP_DIR"
"""Where Gradio keeps the files that it serves, as Gradio reads it."""


@contextmanager
def serving_folder() -> Iterator[Path]:
    """Make the folder that Gradio serves from, for this process alone; it is removed at the end.

    Without it Gradio uses one folder for all its servers and users of a machine. ``GRADIO_TEMP_DIR`` is kept when set.
    """
    before = os.environ.get(FOLDER_VARIABLE)
    if before:
        Path(before).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="stepscope-", dir=before, ignore_cleanup_errors=True) as folder:
        os.environ[FOLDER_VARIABLE] = before or str(Path(folder).resolve())
        try:
            yield Path(folder).resolve()
        finally:
            if before is None:
                del os.environ[FOLDER_VARIABLE]


class DisplayCopies:
    """Copies of videos that a browser plays, converted where it cannot play the file; the folder's owner removes them.

    A copy is named by its content or its source's identity, and ends in ``.mp4`` or ``.webm`` whatever the source is
    called, so that it is never served as anything but a video. Each is made once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()

    def find_or_convert(self, path: Path, *, start_s: float | None = None, duration_s: float = math.inf) -> Path:
        """Return a file that a browser plays: an upload that it plays itself, of another video a copy.

        With ``start_s`` the copy is cut to ``duration_s`` from there, so that its clock is the clip's.
        Raises ``VideoError`` when the video cannot be read or copied.
        """
        try:
            identity = _identity(path)
        except OSError as error:
            raise VideoError(f"{path}: {error.strerror}; check the path") from error
        if identity is None:
            raise VideoError(f"{path}: not a file but a directory or device; give the path of one video")
        if start_s is not None:
            identity = hashlib.sha256(f"{identity} {start_s!r} {duration_s!r}".encode()).hexdigest()
        is_playable = start_s is None and probe(path).is_browser_playable
        is_served = path.resolve().is_relative_to(Path(get_upload_folder()).resolve())
        if is_playable and is_served and path.suffix in (".mp4", ".webm"):
            return path
        try:
            name = identity if is_playable or start_s is not None else _digest(path)
            suffix = ".webm" if is_playable and path.suffix.lower() == ".webm" else ".mp4"
            copy = self._folder / f"{name}{suffix}"
            with self._lock:
                if copy.exists():
                    os.utime(copy)  # Gradio removes files that nobody has asked for since a day
                elif is_playable:
                    _copy_whole(path, copy)
                else:
                    convert_for_browser(path, copy, start_s=start_s or 0.0, duration_s=duration_s)
        except OSError as error:
            raise VideoError(
                f"{path}: cannot be prepared for the browser ({error.strerror}); free some space"
            ) from error
        return copy


def find_table(path: Path, *, private: Iterable[Path] = ()) -> Path | None:
    """Return a file of a run folder that may be read for a download; None when it is not to be handed out.

    Handed out is a regular file that lies in its folder itself, no link that leads out of it, and none of the
    ``private`` files under another name (a hard link).
    """
    try:
        found = path.resolve(strict=True)
        if found.parent != path.parent.resolve() or _identity(found) is None:
            return None
        if any(file.exists() and file.samefile(found) for file in private):
            return None
    except OSError:
        return None  # it is not there, or cannot be looked at: there is nothing to hand out
    return found


def _copy_whole(source: Path, target: Path) -> None:
    with source.open("rb") as reader, atomic_write(target, binary=True) as writer:
        shutil.copyfileobj(reader, writer, 2**20)


def _identity(path: Path) -> str | None:
    """Return a name for a file as it is now, which changes with its content; None for what is no regular file."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return None
    parts = [str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

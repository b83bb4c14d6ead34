"""Files that Gradio serves: copies of videos for the browser, made only from files that passed a check; and uploads.

The page passes Gradio no other paths. Gradio's file route therefore serves these copies, uploads and exports, and no
other file of this machine, regardless of the paths in a split, a link or a run folder. Gradio's upload does not name
its window, so unused uploads are removed once no window is open; Gradio removes the others after a day.
"""

import hashlib
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

from filelock import BaseFileLock, FileLock, Timeout

from stepscope.engine.errors import VideoError
from stepscope.engine.io.files import atomic_write, digest_file, find_real_path
from stepscope.engine.video.reader import find_copy_reason
from stepscope.engine.video.sound import measure_peaks
from stepscope.engine.video.writer import convert_for_browser

FOLDER_VARIABLE = "GRADIO_TEMP_DIR"
"""Environment variable from which Gradio reads the folder of the files that it serves."""
_PREFIX: Final = "stepscope-"
_EXPORTS: Final = "stepscope-export-"
"""Beginning of the names of folders that exist while an export is written."""
_MAX_EXPORT_S: Final = 86_400
_LOCK: Final = ".lock"


@contextmanager
def serving_folder() -> Iterator[Path]:
    """Create the folder that Gradio serves, private to this process, and remove it on exit.

    By default Gradio shares one folder among all its servers on a machine. A ``GRADIO_TEMP_DIR`` that is set is kept.
    Folders of servers that were killed are removed.
    """
    before = os.environ.get(FOLDER_VARIABLE)
    if before:
        Path(before).mkdir(parents=True, exist_ok=True)
    _remove_left(Path(before or gettempdir()))
    folder = Path(mkdtemp(prefix=_PREFIX, dir=before)).resolve()
    lock = _mark_used(folder)
    os.environ[FOLDER_VARIABLE] = before or str(folder)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ[FOLDER_VARIABLE]
        # A thread that still writes in it does so by its old name, and fails.
        removed = folder.rename(folder.with_name(f"{folder.name}.removed"))
        shutil.rmtree(removed, ignore_errors=True)
        lock.release()


def _mark_used(folder: Path) -> BaseFileLock:
    """Lock a file in the folder for as long as this process lives."""
    lock = FileLock(folder / f"{_LOCK}.new", thread_local=False)
    with suppress(OSError):  # a file system without locks: its folders are never removed
        lock.acquire(timeout=0)
        (folder / f"{_LOCK}.new").rename(folder / _LOCK)  # locked already when another server finds it
    return lock


def _remove_left(parent: Path) -> None:
    """Remove the folders of servers that no longer run, and folders of exports that are older than a day."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is in use, of another user, or removed by another server
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if folder.name.startswith(_EXPORTS):
                is_left = time.time() - found.st_mtime > _MAX_EXPORT_S
            else:
                is_left = (folder / _LOCK).is_file() and _is_unlocked(folder / _LOCK)
            if is_left:
                shutil.rmtree(folder, ignore_errors=True)


def _is_unlocked(path: Path) -> bool:
    """Return whether no process holds the lock. Raises ``OSError`` if the file system has none."""
    try:
        with FileLock(path, timeout=0):
            return True
    except Timeout:
        return False


class DisplayCopies:
    """Browser-playable copies of videos, transcoded if necessary. The caller removes the folder.

    A copy is named after a digest of its content or of its source's identity. It always ends in ``.mp4`` or ``.webm``,
    so that it is served as a video and nothing else. Each copy is made once, while others are made beside it.

    Files below the folder ``served`` that browsers play need no copy, because the page serves them.
    """

    def __init__(self, folder: Path, *, served: Path | None = None) -> None:
        self._folder, self._served, self._played = folder, served, set[Path]()
        self._lock, self._making = Lock(), WeakValueDictionary[Path, Lock]()
        self._is_closed = False

    def close(self, *, patience_s: float = 1.0) -> None:
        """Begin no further copy, so that the folder can be removed; wait ``patience_s`` for those being made."""
        self._is_closed = True
        until_s = time.monotonic() + patience_s
        for lock in list(self._making.values()):
            if lock.acquire(timeout=max(0.0, until_s - time.monotonic())):
                lock.release()

    def share(self, path: Path) -> Path:
        """Return a copy of a bundled file under its own name, as if it had been uploaded."""
        copy = self._folder / "shared" / path.name
        copy.parent.mkdir(exist_ok=True)
        with self._begin_copy(copy), path.open("rb") as reader, atomic_write(copy, binary=True) as writer:
            shutil.copyfileobj(reader, writer, 2**20)
        return copy

    def find_or_convert(self, path: Path, *, start_s: float | None = None, duration_s: float = math.inf) -> Path:
        """Return a browser-playable file: the upload itself if it is playable, otherwise a copy.

        With ``start_s`` the copy holds only ``duration_s`` seconds from there, so that its time 0 is the clip's start.
        Raises ``VideoError`` if the video cannot be read or copied.
        """
        try:
            identity = _identity(path)
        except OSError as error:
            raise VideoError(f"{path}: {error.strerror}; check the path") from error
        if identity is None:
            raise VideoError(f"{path}: not a regular file; give the path of one video")
        if start_s is not None:
            identity = hashlib.sha256(f"{identity} {start_s!r} {duration_s!r}".encode()).hexdigest()
        is_playable = start_s is None and not find_copy_reason(path)
        is_served = self._served is not None and path.resolve().is_relative_to(self._served.resolve())
        if is_playable and is_served and path.suffix in (".mp4", ".webm"):
            return self._let_play(path)
        try:
            name = identity if is_playable or start_s is not None else digest_file(path)
            suffix = ".webm" if is_playable and path.suffix.lower() == ".webm" else ".mp4"
            copy = self._folder / f"{name}{suffix}"
            with self._begin_copy(copy):
                if copy.exists():
                    os.utime(copy)  # Gradio deletes files that were not used for a day
                elif is_playable:
                    with path.open("rb") as reader, atomic_write(copy, binary=True) as writer:
                        shutil.copyfileobj(reader, writer, 2**20)
                else:
                    convert_for_browser(path, copy, start_s=start_s or 0.0, duration_s=duration_s)
        except OSError as error:
            raise VideoError(
                f"{path}: cannot be prepared for the browser ({error.strerror}); free some space"
            ) from error
        return self._let_play(copy)

    def measure_sound(self, name: Any) -> tuple[float, bytes] | None:
        """Return the peaks per second of the sound of a file of ``find_or_convert``, and the peaks; None for any other.

        ``name`` is the path by which the browser loads the video.
        """
        if not isinstance(name, str) or not name.endswith((".mp4", ".webm")):
            return None
        try:
            path = find_real_path(Path(name))
            if path not in self._played:
                return None
            return _measure_sound(path, path.stat().st_mtime_ns)
        except (OSError, ValueError, VideoError):
            return None  # the waveform is missing, and nothing else

    def _let_play(self, path: Path) -> Path:
        self._played.add(path.resolve())
        return path

    @contextmanager
    def _begin_copy(self, copy: Path) -> Iterator[None]:
        with self._lock:
            making = self._making.setdefault(copy, Lock())
        with making:
            if self._is_closed:
                raise VideoError("the page is closing")
            yield


def find_downloadable(path: Path, *, private: Iterable[Path] = ()) -> Path | None:
    """Return the resolved path of a file of a run folder if it may be downloaded; None otherwise.

    The file must be a regular file inside its folder, not a symbolic link that leads out of it, and not a hard link to
    one of the ``private`` files.
    """
    try:
        found = find_real_path(path)
        if found.parent != path.parent.resolve() or _identity(found) is None:
            return None
        if any(file.exists() and file.samefile(found) for file in private):
            return None
    except OSError:
        return None  # missing or unreadable
    return found


@lru_cache(maxsize=32)
def _measure_sound(path: Path, _changed_ns: int) -> tuple[float, bytes]:
    per_s, peaks = measure_peaks(path)
    return per_s, peaks.tobytes()


def _identity(path: Path) -> str | None:
    """Return a digest of a file's path, inode, size and modification time; None if it is not a regular file."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return None
    parts = [str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


GRACE_S: Final = 60.0
"""Age in seconds at which an unused upload is removed if no window was open for so long: a reload opens another one."""
_NAME_CHARS: Final = 64
"""Length of the SHA-256 that names the folder of each upload; other files of the page lie elsewhere."""


def remove_unused(folder: Path, *, is_used: Callable[[Path], bool]) -> None:
    """Remove the uploads that were not run or scored; a link may open the others again."""
    until = time.time() - GRACE_S  # a program may have just uploaded a file for its next call
    with suppress(OSError):  # the page is closing
        for upload in folder.iterdir():
            with suppress(OSError):  # no folder, or removed meanwhile
                for path in list(upload.iterdir()) if len(upload.name) == _NAME_CHARS else ():
                    if path.lstat().st_mtime <= until and not is_used(path.resolve()):
                        path.unlink()
                        upload.rmdir()

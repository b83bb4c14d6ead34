"""Finds the video files of records in a folder.

A record without ``video_path`` is matched by the names that it has for its video. A ``video_path`` that does not exist
is looked up relative to the folder, then by file name.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

SUFFIXES: Final = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"})


class VideoFolder:
    """The video files of a folder and its subfolders, by name without suffix."""

    def __init__(self, path: Path) -> None:
        """List the files. Raises ``ValueError`` if ``path`` is not a folder."""
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder; name the folder of the videos")
        self._path = path
        self._found: defaultdict[str, list[Path]] = defaultdict(list)
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in SUFFIXES and file.is_file():
                self._found[file.stem].append(file)

    def find(self, names: Iterable[str]) -> Path:
        """Return the file of the first name that has one. Raises ``ValueError`` if there is none, or several."""
        tried = list(dict.fromkeys(names))
        for name in tried:
            if files := self._found.get(name, []):
                return self._only(files, name)
        raise ValueError(
            f"no video in {self._path} is called {' or '.join(tried)} (ending in {', '.join(sorted(SUFFIXES))}); "
            "rename it, or name the file in video_path"
        )

    def find_file(self, written: Path) -> Path | None:
        """Return the file for a path in a record; None if there is none. Raises ``ValueError`` if there are several."""
        candidate = self._path / written
        if not written.is_absolute() and ".." not in written.parts and os.path.isfile(candidate):
            return candidate
        files = [file for file in self._found.get(written.stem, []) if file.name == written.name]
        return self._only(files, written.name) if files else None

    def _only(self, files: Sequence[Path], name: str) -> Path:
        if len(files) > 1:
            listed = " and ".join(str(file.relative_to(self._path)) for file in files[:2])
            raise ValueError(
                f"{len(files)} videos in {self._path} are called {name}, such as {listed}; rename or remove all "
                "but one, or name the file in video_path"
            )
        return files[0]
